"""HDF5 and NetCDF-4 files as trees: every layout, filter and link, with h5py's values."""

from __future__ import annotations

import gc
import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import xarray

import chunkwise as ts
from chunkwise.errors import ChunkwiseError, DataCorruptionError, PermissionDeniedError, UnsupportedError

RNG = np.random.default_rng(0)
VALUES = RNG.integers(0, 1000, (50, 70)).astype("<i4")
NOISE = RNG.integers(0, 2**31, (50, 70)).astype("<i4")
RECORDS = np.array([(1, 2.5, b"a"), (3, -1, b"bcd")], dtype=[("a", "<i4"), ("b", "<f8"), ("c", "S3")])
CHUNKED: dict[str, Any] = {"chunks": (20, 30)}


def _make(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, options in {
            "contiguous": {},
            "chunked": CHUNKED,
            "gzip": {**CHUNKED, "compression": "gzip", "shuffle": True, "fletcher32": True},
            "lzf": {**CHUNKED, "compression": "lzf", "shuffle": True},
            "szip": {**CHUNKED, "compression": "szip"},
            "scaleoffset": {**CHUNKED, "scaleoffset": 0},
            "blosc": {**CHUNKED, **hdf5plugin.Blosc()},
            "zstd": {**CHUNKED, **hdf5plugin.Zstd()},
            "lz4": {**CHUNKED, **hdf5plugin.LZ4()},
            "bzip2": {**CHUNKED, **hdf5plugin.BZip2()},
            "bitshuffle": {**CHUNKED, **hdf5plugin.Bitshuffle(cname="zstd")},
            "blosc2": {**CHUNKED, **hdf5plugin.Blosc2()},
        }.items():
            file.create_dataset(name, data=VALUES, **options)
        for name, options in {
            "noise": {"compression": "lzf", "shuffle": True},
            "noise_checked": {"compression": "lzf", "fletcher32": True},
        }.items():
            file.create_dataset(name, data=NOISE, **CHUNKED, **options)
        file.create_dataset("big_endian", data=VALUES.astype(">f8"), fillvalue=3.5, **CHUNKED)
        file.create_dataset("big_lz4", data=VALUES.astype(">i4"), **CHUNKED, **hdf5plugin.LZ4())
        file.create_dataset("bool", data=VALUES > 500)
        file.create_dataset("complex", data=VALUES.astype("c16"), chunks=(10, 10))
        file.create_dataset("half", data=VALUES.astype("f2"))
        file.create_dataset("bytes", data=np.array([b"abc", b"de"]))
        file.create_dataset(
            "text", data=np.array([["grün", "x"], ["", "y"]], object), dtype=h5py.string_dtype()
        )
        file.create_dataset("scalar", data=3.25)
        file.create_dataset("scalar_text", data="hello")
        file.create_dataset("records", data=RECORDS)
        aligned = np.dtype([("a", "i1"), ("b", "f8")], align=True)
        file.create_dataset("aligned", data=np.array([(1, 2.5)], aligned))
        arrays = file.create_dataset("arrays", (4,), dtype=np.dtype(("f4", (3,))))
        arrays[...] = np.arange(12, dtype="f4").reshape(4, 3)
        sparse = file.create_dataset("sparse", (1000, 1000), chunks=(100, 100), dtype="i2", fillvalue=7)
        sparse[150:180, 20] = 1
        file.create_dataset("never_written", (10,), dtype="f4")
        file.create_dataset("shrunk", data=VALUES, maxshape=(None, 70), **CHUNKED).resize((15, 70))
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_INT32, space, layout)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(5, dtype="i4"))
        virtual = h5py.VirtualLayout((2, 50, 70), dtype="i4")
        virtual[0] = h5py.VirtualSource(str(path.name), "gzip", (50, 70))
        virtual[1, :20] = h5py.VirtualSource("other.h5", "q", (50, 70))[10:30]
        file.create_virtual_dataset("virtual", virtual, fillvalue=-5)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a dataset of each kind, and another one beside it."""
    directory = tmp_path_factory.mktemp("hdf5")
    with h5py.File(directory / "other.h5", "w") as file:
        file["q"] = VALUES * 2
    _make(directory / "x.h5")
    return directory / "x.h5"


def _expected(dataset: Any) -> Any:
    text = h5py.check_string_dtype(dataset.dtype)
    return dataset.asstr()[()] if text is not None and text.length is None else dataset[()]


def test_every_dataset_has_the_values_of_h5py(place: Path) -> None:
    """Whole and in part, by the tree and by its own path."""
    group = ts.open_group(place)
    with h5py.File(place) as file:
        assert sorted(group) == sorted(file)
        for name, dataset in file.items():
            array = ts.open(f"{place}|hdf5:{name}").result()
            expected = np.asarray(_expected(dataset))
            np.testing.assert_array_equal(array.read().result(), expected, err_msg=name)
            if expected.shape == VALUES.shape:
                np.testing.assert_array_equal(group[name][3:40:7, ::2].read().result(), expected[3:40:7, ::2])
            if expected.dtype.names is None and name != "arrays":
                assert array.dtype.numpy_dtype.kind == ("O" if "text" in name else expected.dtype.kind)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gzip", ""), ("lzf", ""), ("noise", ""), ("szip", ""), ("lz4", ""), ("blosc", ""), ("zstd", ""),
        ("contiguous", ""), ("compact", ""), ("records", ""), ("arrays", ""), ("bool", ""), ("shrunk", ""),
        ("scaleoffset", "filters scaleoffset"), ("text", "text"), ("virtual", "virtual dataset"),
        ("aligned", "another way than in memory"), ("noise_checked", "without some of the filters"),
        ("blosc2", "filters blosc2"),
    ],
)  # fmt: skip
def test_explain_says_what_h5py_reads(place: Path, name: str, why: str) -> None:
    """What our codecs read has no such line."""
    text = str(ts.open(f"{place}|hdf5:{name}").result().explain())
    assert ("read by h5py, one chunk at a time" in text) == bool(why)
    assert why in text


FILTERS: dict[str, Any] = {
    "gzip": {"compression": "gzip"},
    "lzf": {"compression": "lzf"},
    "szip": {"compression": "szip"},
    "shuffle": {"compression": "gzip", "shuffle": True},
    "fletcher32": {"compression": "gzip", "fletcher32": True},
    "blosc": hdf5plugin.Blosc(),
    "zstd": hdf5plugin.Zstd(),
    "lz4": hdf5plugin.LZ4(),
    "bzip2": hdf5plugin.BZip2(),
    "bitshuffle": hdf5plugin.Bitshuffle(cname="zstd"),
}


@pytest.mark.parametrize("chunks", [(20, 30), (10, 16)])  # of rows that blocks of szip divide, or not
@pytest.mark.parametrize("name", FILTERS)
def test_each_filter_reads_elements_of_each_size(name: str, chunks: Any, tmp_path: Path) -> None:
    dtypes = ["u1", "i1", "<u2", ">u2", "<f2", "<i4", ">i4", "<f4", "<f8", ">f8", "<i8"]
    raw = np.random.default_rng(3).integers(0, 9, (50, 8), "u1")  # the bytes of an element differ
    values = {dtype: raw.view(dtype)[:, :1].repeat(70, 1) for dtype in dtypes}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for dtype in dtypes:
            stored = file.create_dataset(dtype, data=values[dtype], chunks=chunks, **FILTERS[name])
            assert stored.id.get_chunk_info(0).filter_mask == 0  # filters that save nothing are left out
    for dtype in dtypes:
        array = ts.open(f"{tmp_path}/a.h5|hdf5:{dtype}").result()
        np.testing.assert_array_equal(array.read().result(), values[dtype], err_msg=dtype)


def test_no_lock_and_no_second_file(place: Path, tmp_path: Path) -> None:
    """A file that somebody has open for writing is read; nothing of it is copied."""
    path = tmp_path / "open.h5"
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(10)
        file.flush()
        assert ts.open(f"{path}|hdf5:a").result()[3].read().result() == 3
    assert [p.name for p in tmp_path.iterdir()] == ["open.h5"]


def test_a_user_block_and_a_pickle(tmp_path: Path) -> None:
    """Positions count from behind the user block; data that were never written are no positions."""
    path = tmp_path / "u.h5"
    with h5py.File(path, "w", userblock_size=1024) as file:
        file["a/b"] = VALUES
        file.create_dataset("a/c", data=VALUES, compression="gzip", **CHUNKED)
        file.create_dataset("a/d", (10,), dtype="f4")
    for name, expected in (("b", VALUES), ("c", VALUES), ("d", np.zeros(10, "f4"))):
        array = ts.open(f"hdf5://a/{name}::{path}").result()
        np.testing.assert_array_equal(array.read().result(), expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)).read().result(), expected)


def test_links(tmp_path: Path) -> None:
    """Soft and external links are followed; dangling ones, and groups in themselves, are left out."""
    path = tmp_path / "x.h5"
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["inner/q"] = VALUES
        file["inner/back"] = h5py.ExternalLink("x.h5", "/a")
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(5)
        group = file.create_group("g")
        group["up"] = file["/"]
        group["soft"] = h5py.SoftLink("/a")
        group["relative"] = h5py.SoftLink("soft")
        group["dangling"] = h5py.SoftLink("/nothing")
        group["loop"] = h5py.SoftLink("loop")
        group["external"] = h5py.ExternalLink("other.h5", "/inner")
        group["missing"] = h5py.ExternalLink("nowhere.h5", "/inner")
        group["outside"] = h5py.ExternalLink("/etc/hostname", "/")
        group["above"] = h5py.ExternalLink("../other.h5", "/")
        group.attrs["reference"] = file["a"].ref
    found = ts.open_group(path)
    assert sorted(found["g"]) == ["external", "relative", "soft"]
    assert sorted(found["g/external"]) == ["back", "q"]
    assert found["g/external/back"].read().result().tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found["g/external/q"].read().result(), VALUES)
    assert found["g"].attrs["reference"]["value"]["path"] == "/a"
    for name in ("outside", "above"):
        with pytest.raises(PermissionDeniedError, match="is refused"):
            found[f"g/{name}"]
    with pytest.raises(KeyError):
        found["g/dangling"]


def test_data_in_other_files(tmp_path: Path) -> None:
    """External storage and sources of virtual datasets lie beside the file, or are refused."""
    (tmp_path / "raw.bin").write_bytes(b"xx" + VALUES.tobytes())
    half = VALUES.nbytes // 2
    with h5py.File(tmp_path / "x.h5", "w") as file:
        parts = [("raw.bin", 2, half), ("raw.bin", 2 + half, half)]
        file.create_dataset("good", shape=VALUES.shape, dtype="i4", external=parts)
        file.create_dataset("bad", shape=(3,), dtype="u1", external=[("/etc/hostname", 0, 3)])
        layout = h5py.VirtualLayout((3,), dtype="u1")
        layout[:] = h5py.VirtualSource("/etc/hostname", "q", (3,))
        file.create_virtual_dataset("bad_virtual", layout)
    group = ts.open_group(tmp_path / "x.h5")
    np.testing.assert_array_equal(group["good"].read().result(), VALUES)
    for name in ("bad", "bad_virtual"):
        with pytest.raises(PermissionDeniedError, match="is refused"):
            group[name].read().result()


def test_lists_and_references(tmp_path: Path) -> None:
    """Lists of numbers are arrays of arrays, references objects as HDMF has them in Zarr v2."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        lists = file.create_dataset("lists", (3,), dtype=h5py.vlen_dtype(np.int32))
        lists[0], lists[2] = [1, 2, 3], [4]
        file.create_dataset("references", (2,), dtype=h5py.ref_dtype)[0] = lists.ref
        kind = np.dtype([("name", h5py.string_dtype()), ("n", "i4")])
        file.create_dataset("rows", data=np.array([("a", 1), ("b", 2)], kind))
    group = ts.open_group(tmp_path / "x.h5")
    assert [item.tolist() for item in group["lists"].read().result()] == [[1, 2, 3], [], [4]]
    first, second = group["references"].read().result()
    assert (first["path"], first["source"], second) == ("/lists", ".", None)
    assert group["rows"].read().result().tolist() == [["a", 1], ["b", 2]]


def test_netcdf_is_a_dataset_of_xarray(tmp_path: Path) -> None:
    """Dimensions, coordinates, times and fill values are xarray's own, before and after `cp`."""
    path = tmp_path / "x.nc"
    data = xarray.Dataset(
        {
            "v": (
                ("time", "y"),
                np.where(VALUES[:4, :5] > 300, VALUES[:4, :5].astype("f4"), np.nan),
                {"units": "m"},
            ),
            "n": (("y", "k"), np.arange(10).reshape(5, 2)),
        },
        coords={
            "time": np.array(["2026-01-01", "2026-01-02", "2026-01-04", "2026-01-09"], "M8[ns]"),
            "y": range(5),
        },
        attrs={"title": "t", "list": [1, 2], "one": 5},
    )
    encoding = {"v": {"zlib": True, "_FillValue": -1.0, "chunksizes": (2, 5)}, "n": {"_FillValue": None}}
    data.to_netcdf(path, engine="netcdf4", encoding=encoding)
    expected = xarray.open_dataset(path, engine="netcdf4").load()
    xarray.testing.assert_identical(
        xarray.open_dataset(f"file://{path}|hdf5:", engine="chunkwise").load().drop_encoding(),
        expected.drop_encoding(),
    )
    command = [sys.executable, "-m", "chunkwise", "cp", "-r", str(path), str(tmp_path / "y.zarr"), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    copied = xarray.open_zarr(tmp_path / "y.zarr", consolidated=True).load()
    xarray.testing.assert_identical(copied.drop_encoding(), expected.drop_encoding())


def _truncated(content: bytearray) -> bytes:
    return bytes(content[: len(content) // 2])


def _wrong_sizes(content: bytearray) -> bytes:
    """Return a file whose index of chunks has sizes and positions beyond the file."""
    at = content.index(b"TREE")
    while at >= 0:
        if content[at + 4] == 1:  # node type: chunks
            content[at + 24 : at + 28] = b"\xff\xff\xff\x7f"  # size of the first chunk
        at = content.find(b"TREE", at + 4)
    return bytes(content)


@pytest.mark.parametrize(
    "damage", [_truncated, _wrong_sizes, lambda content: bytes(content[:8]) + b"\0" * 4096]
)
def test_damaged_files(tmp_path: Path, damage: Callable[[bytearray], bytes]) -> None:
    """An error that names the file, soon."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", data=NOISE, compression="gzip", **CHUNKED)
    path.write_bytes(damage(bytearray(path.read_bytes())))
    began = time.process_time()
    with pytest.raises(DataCorruptionError, match=r"x\.h5"):
        ts.open(f"{path}|hdf5:a").result().read().result()
    assert time.process_time() - began < 2


def test_every_damaged_byte_is_an_error_or_nothing(tmp_path: Path) -> None:
    """Whatever byte of the metadata is another one, no error but ours comes, in bounded time."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("a", data=VALUES[:8, :8], chunks=(4, 4), compression="gzip")
        file.attrs["b"] = "text"
    content = path.read_bytes()
    n_errors = n_read = 0
    for at in range(8, min(len(content), 900), 7):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        path.write_bytes(bytes(changed))
        try:
            group = ts.open_group(f"{path}|hdf5:")
            dict(group.attrs)
            for name in group:
                group[name].read().result()
            n_read += 1
        except (ChunkwiseError, KeyError):
            n_errors += 1
    assert n_errors > 0 and n_read > 0


def test_pipelines_with_remainders(tmp_path: Path) -> None:
    """LZ4 whose last block is short, shuffle behind a compressor, of data that shrink and that don't."""
    path = tmp_path / "x.h5"
    data = {"smooth": np.arange(5000, dtype="<i4"), "noise": RNG.integers(0, 2**31, 5000).astype("<i4")}
    with h5py.File(path, "w") as file:
        for name, values in data.items():
            for block in (0, 3, 1000, 4096):
                for chunk in (777, 1000):
                    options = {"chunks": (chunk,), **hdf5plugin.LZ4(nbytes=block)}
                    file.create_dataset(f"{name}_{block}_{chunk}", data=values, **options)
            for order in ("ds", "fs", "sds", "sdf"):
                properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                properties.set_chunk((777,))
                for letter in order:
                    if letter == "d":
                        properties.set_deflate(4)
                    else:
                        (properties.set_shuffle if letter == "s" else properties.set_fletcher32)()
                space = h5py.h5s.create_simple(values.shape)
                made = h5py.h5d.create(
                    file.id, f"{order}_{name}".encode(), h5py.h5t.STD_I32LE, space, properties
                )
                made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    group = ts.open_group(path)
    for name in group:
        values = data["smooth" if "smooth" in name else "noise"]
        np.testing.assert_array_equal(group[name].read().result(), values, err_msg=name)


def test_a_file_is_only_read(place: Path) -> None:
    """Writing is refused by name, whatever is asked for."""
    before = place.read_bytes()
    with pytest.raises(UnsupportedError, match='"hdf5" can only be read'):
        ts.open(f"{place}|hdf5:gzip").result()[0, 0] = 1
    with pytest.raises(UnsupportedError, match='"hdf5" can only be read'):
        ts.open_group(f"{place}|hdf5:", "r+").create_group("new")
    for mode in ("r+", "a", "w", "w-"):
        with pytest.raises(ChunkwiseError):
            ts.open_group(place, mode)
    assert place.read_bytes() == before


def test_a_copy_of_the_tree(place: Path, tmp_path: Path) -> None:
    """`cp -r` to Zarr v3: all values, with codecs that others know."""
    command = [sys.executable, "-m", "chunkwise", "cp", "-r", str(place), str(tmp_path / "y.zarr"), "--quiet"]
    subprocess.run([*command, "--format", "zarr3"], check=True, capture_output=True)
    import zarr

    copied = zarr.open_group(tmp_path / "y.zarr", mode="r")
    with h5py.File(place) as file:
        for name in ("gzip", "lzf", "bitshuffle", "sparse", "virtual", "big_endian"):
            np.testing.assert_array_equal(copied[name][...], file[name][...])
    assert json.loads((tmp_path / "y.zarr" / "gzip" / "zarr.json").read_text())["shape"] == [50, 70]


def test_an_nwb_file_is_one_in_zarr(tmp_path: Path) -> None:
    """`cp -r` gives what our conversion of NWB gives, and it opens as NWB: references, links, types."""
    import datetime

    import pynwb

    from chunkwise.hdmf import NWBZarrIO

    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    written = pynwb.NWBFile("s", "id", start)
    device = written.create_device("d")
    group = written.create_electrode_group("g", "x", "y", device)
    for n in range(4):
        written.add_electrode(location="CA1", group=group, x=float(n))
    region = written.create_electrode_table_region([0, 2], "r")
    values = np.arange(20.0).reshape(10, 2)
    written.add_acquisition(
        pynwb.ecephys.ElectricalSeries(name="e", data=values, electrodes=region, rate=1.0)
    )
    written.add_trial(0.0, 1.0)
    with pynwb.NWBHDF5IO(tmp_path / "x.nwb", "w") as io:
        io.write(written)
    run = [sys.executable, "-m", "chunkwise"]
    copy = [
        *run,
        "cp",
        "-r",
        str(tmp_path / "x.nwb"),
        str(tmp_path / "a.zarr"),
        "--format",
        "zarr2",
        "--quiet",
    ]
    subprocess.run(copy, check=True, capture_output=True)
    convert = [*run, "nwb", "convert", str(tmp_path / "x.nwb"), str(tmp_path / "b.zarr"), "--format", "zarr2"]
    subprocess.run(convert, check=True, capture_output=True)

    with NWBZarrIO(str(tmp_path / "a.zarr"), mode="r") as io:
        opened = io.read()
        np.testing.assert_array_equal(opened.acquisition["e"].data[:], values)
        assert opened.acquisition["e"].electrodes.table is opened.electrodes
        assert opened.electrodes["group"][0].device.name == "d"

    def nodes(group: Any, path: str = "") -> Any:
        attributes = dict(group.attrs)
        for link in attributes.get("zarr_link", []):  # `cp` leaves out what is known of a link's target
            link.pop("object_id", None)
            link.pop("source_object_id", None)
        yield path, attributes
        for name in group if isinstance(group, ts.Group) else ():
            yield from nodes(group[name], f"{path}/{name}")

    found, expected = (dict(nodes(ts.open_group(tmp_path / f"{name}.zarr"))) for name in "ab")
    assert found == expected


def test_garbage_is_collected_while_h5py_waits(tmp_path: Path) -> None:
    """A thread that holds h5py's lock may wait for one that collects what is left of files and arrays."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a/b", data=VALUES, chunks=(20, 30), compression="gzip")
        file.create_dataset("text", data=["one", "two"])
    gc.collect()
    gc.disable()
    try:
        for path in ("a/b", "text"):
            ts.open(f"{tmp_path}/x.h5|hdf5:{path}").result().read().result()
        collected = threading.Event()
        other = threading.Thread(target=lambda: (gc.collect(), collected.set()))
        with h5py._objects.phil:
            other.start()
            assert collected.wait(20), "the garbage has objects of h5py"
        other.join()
    finally:
        gc.enable()
    before = h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_ALL)
    ts.open(f"{tmp_path}/x.h5|hdf5:text").result().read().result()
    assert h5py.h5f.get_obj_count(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_ALL) <= before
