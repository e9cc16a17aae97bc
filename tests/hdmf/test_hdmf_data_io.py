"""Settings of datasets: codecs by name and as objects, in each format, and those that are refused."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.backends.hdf5 import H5DataIO
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.data_utils import DataChunkIterator, DataIO

import chunkwise as cw
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError, UnsupportedError
from chunkwise.hdmf import ZarrDataIO, ZarrIO, open_store
from chunkwise.hdmf.model.codecs import DEFAULT_COMPRESSOR

DATA = np.arange(60, dtype="i4").reshape(20, 3)


def _document(path: Path, format: str, **settings: Any) -> dict[str, Any]:
    """Write data with settings; return its document after reading it back."""
    with ZarrIO(path, mode="w", format=format) as io:
        dataset = DatasetBuilder("a", ZarrDataIO(DATA, **settings), dtype="int32")
        io.write_builder(GroupBuilder("root", datasets=[dataset]))
    store = open_store(path)
    np.testing.assert_array_equal(store.dataset("/a").read(), DATA)
    return store.tree.nodes["/a"].document


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("gzip", {"name": "gzip", "configuration": {"level": 5}}),
        ("zstd", {"name": "zstd", "configuration": {"level": 0}}),
        ("lz4", {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}),
    ],
)
def test_a_name_stands_for_a_whole_codec_in_zarr3(name: str, codec: dict[str, Any], tmp_path: Path) -> None:
    # Other readers refuse gzip, zstd and blosc without a configuration.
    assert _document(tmp_path / "a", "zarr3", compressor=name)["codecs"][-1] == codec


def test_blosc_by_name_in_zarr3(tmp_path: Path) -> None:
    codec = _document(tmp_path / "a", "zarr3", compressor="blosc")["codecs"][-1]
    assert codec["configuration"].items() >= {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}.items()


@pytest.mark.parametrize(
    ("codec", "document"),
    [
        (numcodecs.Zlib(4), {"type": "gzip", "level": 4, "useZlib": True}),
        ("zlib", {"type": "gzip", "level": 1, "useZlib": True}),
        (numcodecs.BZ2(3), {"type": "bzip2", "blockSize": 3}),
        (numcodecs.LZMA(preset=2), {"type": "xz", "preset": 2}),
        (
            {"name": "numcodecs.zlib", "configuration": {"level": 3}},
            {"type": "gzip", "level": 3, "useZlib": True},
        ),
    ],
)
def test_compressors_that_n5_calls_otherwise(codec: Any, document: dict[str, Any], tmp_path: Path) -> None:
    assert _document(tmp_path / "a", "n5", compressor=codec)["compression"] == document


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_an_unknown_codec_is_told_by_name(format: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r'dataset /a: .*"bogus"'):
        _document(tmp_path / "a", format, compressor="bogus")


GZIP = {"zarr2": {"id": "gzip", "level": 2}, "zarr3": {"name": "gzip", "configuration": {"level": 2}}}
OBJECTS: list[tuple[Any, dict[str, Any]]] = [
    # A codec, and the last codec of the document in each format; the error, if it is text.
    (zarr.codecs.GzipCodec(level=2), {**GZIP, "n5": {"type": "gzip", "level": 2, "useZlib": False}}),
    (
        {"type": "gzip", "level": 2, "useZlib": True},
        {**GZIP, "n5": {"type": "gzip", "level": 2, "useZlib": True}},
    ),
    ({"id": "zlib", "level": 2}, {"zarr2": {"id": "zlib", "level": 2}, "zarr3": GZIP["zarr3"]}),
    (zarr.codecs.BytesCodec(endian="little"), {"zarr2": None, "zarr3": None, "n5": None}),
    ("none", {"zarr2": None, "zarr3": None, "n5": None}),
    ({"type": "raw"}, {"zarr2": None, "zarr3": None, "n5": None}),
    ({"name": "bytes", "configuration": {"endian": "big"}}, {"zarr2": '"bytes" can\'t be written in'}),
    ({"type": "xz", "preset": 6}, {"zarr2": "xz", "zarr3": "xz", "n5": {"type": "xz", "preset": 6}}),
    (numcodecs.JSON(), {"zarr3": '"json2" can\'t be written in'}),
    (["gzip", "zstd"], {"n5": "N5 has one compressor, but 2 are given"}),
    *(
        (codec, dict.fromkeys(("zarr2", "zarr3", "n5"), error))
        for codec, error in {
            5: "Expected a codec, but received: 5",
            "bogus": '"bogus"',
            "zstd:99": "99",
            "pickle": "pickle",
        }.items()
    ),
    (numcodecs.Pickle(), dict.fromkeys(("zarr2", "zarr3", "n5"), '"pickle" is refused')),
    ({"x": 1}, dict.fromkeys(("zarr2", "zarr3", "n5"), "none of the members name, id, type")),
]


@pytest.mark.parametrize(("codec", "outcomes"), OBJECTS, ids=lambda value: str(value)[:40])
def test_a_codec_in_each_format_for_a_dataset_and_for_a_file(
    codec: Any, outcomes: dict[str, Any], tmp_path: Path
) -> None:
    """What is refused for all datasets of a file is what is refused for one, and nothing is written."""
    for format, expected in outcomes.items():
        path = tmp_path / format
        if isinstance(expected, str):
            with pytest.raises(ChunkwiseError, match=expected):
                _document(path, format, compressor=codec)
            with pytest.raises(OptionError, match=f"codec: .*{expected}"):
                ZarrIO(tmp_path / "b", mode="w", format=format, codec=codec)
            assert not (tmp_path / "b").exists()
            continue
        document = _document(path, format, compressor=codec)
        last = {"zarr2": "compressor", "n5": "compression"}.get(format)
        found = document[last] if last else document["codecs"][-1]
        nothing = {"zarr3": {"name": "bytes", "configuration": {"endian": "little"}}, "n5": {"type": "raw"}}
        assert found == (nothing.get(format) if expected is None else expected)
        with ZarrIO(tmp_path / "b", mode="w", format=format, codec=codec, force_overwrite=True) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", DATA)]))
        assert open_store(tmp_path / "b").tree.nodes["/a"].document == document


def test_n5_says_what_it_lacks(tmp_path: Path) -> None:
    for settings, words in (
        ({"fillvalue": 7}, "N5 has no fill value"),
        ({"compressor": ["gzip", "zstd"]}, "one compressor, but 2"),
        ({"filters": [numcodecs.Delta("<i4")]}, "N5 has no filters"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            _document(tmp_path / "a", "n5", **settings)
    assert _document(tmp_path / "a", "n5", fillvalue=0)


def test_n5_uses_gzip_and_says_so_for_a_codec_that_it_lacks(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="N5 has no such codec, gzip is used"):
        document = _document(tmp_path / "a", "n5", compressor=numcodecs.Shuffle(4))
    assert document["compression"]["type"] == "gzip"


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("fill", [float("nan"), 1.5, 2**40, -1, "x", [1, 2], 1 + 2j])
def test_a_fill_value_that_the_type_lacks_is_refused(format: str, fill: float, tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a", mode="w", format=format) as io, warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = DatasetBuilder("a", ZarrDataIO(DATA.astype("u4"), fillvalue=fill), dtype="uint32")
        with pytest.raises(InvalidArgumentError, match=r"dataset /a: fill value .* is no uint32"):
            io.write_builder(GroupBuilder("root", datasets=[dataset]))


@pytest.mark.parametrize("chunks", [(0, 3), (-2, 3), (5,), (2.5, 3), "all", {"x": 3}])
def test_chunks_that_are_none_are_refused(chunks: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^(dataset /a: )?chunks: "):
        _document(tmp_path / "a", "zarr3", chunks=chunks)


@pytest.mark.parametrize("exhaust", [True, False])
def test_one_dataset_is_written_into_a_file_that_is_there(exhaust: bool, tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a", mode="w") as io:
        io.write_builder(GroupBuilder("root", groups=[GroupBuilder("g")]))
    rows = DataChunkIterator((np.full(3, i, "f4") for i in range(4)), buffer_size=1)
    with ZarrIO(tmp_path / "a", mode="r+") as io:
        io.write_dataset("/g", DatasetBuilder("a", rows, dtype="float32"), exhaust_dci=exhaust)
    with ZarrIO(tmp_path / "a", mode="r-") as io:
        found = io.read_builder().groups["g"].datasets["a"].data[:]
    assert found.tolist() == [[float(i)] * 3 for i in range(4)]


def test_data_of_hdf5_with_the_options_that_it_has(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as f:
        dataset = f.create_dataset("d", data=DATA, chunks=(5, 3), compression="gzip", shuffle=True)
        assert ZarrDataIO.is_h5py_dataset(dataset)
        assert not ZarrDataIO.is_h5py_dataset(DATA)
        assert ZarrDataIO.hdf5_to_zarr_filters(dataset) == [numcodecs.Shuffle(4), numcodecs.Zlib(4)]
        for options, expected in (
            ({}, {"id": "gzip", "level": 4}),
            ({"compressors": "zstd"}, {"id": "zstd", "level": 1}),
            ({"compressor": False}, None),
        ):
            wrapped = ZarrDataIO.from_h5py_dataset(dataset, **options)
            with ZarrIO(tmp_path / "a", mode="w", format="zarr2") as io:
                io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", wrapped)]))
            document = open_store(tmp_path / "a").tree.nodes["/d"].document
            assert document["chunks"] == [5, 3]
            assert document["filters"] == [{"id": "shuffle", "elementsize": 4}]
            found = document["compressor"]
            assert found == expected if expected is None else found.items() >= {"id": expected["id"]}.items()
        lzf = f.create_dataset("lzf", data=DATA, compression="lzf", scaleoffset=2)
        with pytest.warns(UserWarning, match="lzf"), pytest.warns(UserWarning, match="scaleoffset"):
            assert ZarrDataIO.hdf5_to_zarr_filters(lzf) == []


def test_io_settings_are_those_that_were_given() -> None:
    assert ZarrDataIO(DATA).io_settings == {}
    given = ZarrDataIO(DATA, chunks=(2, 3), compressor=False, fillvalue=3)
    assert given.io_settings == {"chunks": (2, 3), "compressor": None, "fill_value": 3}
    assert ZarrDataIO(DATA, compressors="zstd").io_settings == {"compressors": "zstd"}
    assert ZarrDataIO(DATA, compressors=True).io_settings == {}
    assert ZarrDataIO(DATA, **given.get_io_params()).io_settings == given.io_settings


def test_shards_are_checked_where_they_are_given() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^shards: expected .*, not 'automatic'"):
        ZarrDataIO(np.zeros((8, 8)), chunks=(2, 2), shards="automatic")
    for shards in ((3, 4), (4,)):
        with pytest.raises(InvalidArgumentError, match=r"^shards.*(can't be divided|for each of 2)"):
            ZarrDataIO(np.zeros((8, 8)), chunks=(2, 2), shards=shards)
    with pytest.warns(UserWarning, match="shards are given without chunks"):
        ZarrDataIO(np.zeros((8, 8)), shards=(4, 4))
    assert ZarrDataIO(np.zeros((8, 8)), chunks=(2, 2), shards=(4, 4)).settings.shards == (4, 4)


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
@pytest.mark.parametrize("fill", [b"zz", b"\xfe"])
def test_a_fill_value_of_bytes_is_kept(format: str, fill: bytes, tmp_path: Path) -> None:
    values = np.array([b"ab", b"\xff" if fill == b"\xfe" else b"c"], "S4")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        wrapped = ZarrDataIO.from_h5py_dataset(
            f.create_dataset("d", data=values, fillvalue=fill, chunks=(1,))
        )
        assert wrapped.io_settings["fill_value"] == fill
        with ZarrIO(tmp_path / "a", mode="w", format=format) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", wrapped)]))
    array = cw.open_array(tmp_path / "a" / "d")
    assert array.fill_value in (fill, fill.decode("latin1"))
    assert zarr.open_array(tmp_path / "a" / "d", mode="r").fill_value in (fill, fill.decode("latin1"))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "f2", "i4", "f4", "i8", "f8"])
def test_bytes_are_shuffled_if_an_element_has_several(dtype: str, tmp_path: Path) -> None:
    values = np.arange(12).astype(dtype)
    data = ZarrDataIO(values, compressor="zstd", filters=["shuffle"])
    with ZarrIO(tmp_path / "a", mode="w", format="zarr2") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", data)]))
    filters = open_store(tmp_path / "a").tree.nodes["/d"].document["filters"]
    width = values.itemsize
    assert filters == ([{"id": "shuffle", "elementsize": width}] if width > 1 else None)
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "a" / "d"), mode="r")[:], values)


GZIP_4 = {"id": "gzip", "level": 4}
H5_OPTIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # Options of H5DataIO, members of the document in Zarr v2, and the warning.
    ({"compression": "gzip"}, {"compressor": GZIP_4, "filters": None}, ""),
    ({"compression": True}, {"compressor": GZIP_4}, ""),
    ({"compression": "gzip", "compression_opts": 2}, {"compressor": {"id": "gzip", "level": 2}}, ""),
    ({"shuffle": True}, {"filters": [{"id": "shuffle", "elementsize": 4}]}, ""),
    ({"shuffle": False, "compression": "gzip"}, {"compressor": GZIP_4, "filters": None}, ""),
    ({"compression": "gzip", "chunks": (4, 3)}, {"compressor": GZIP_4, "chunks": [4, 3]}, ""),
    (
        {"fletcher32": True, "compression": "gzip"},
        {"compressor": GZIP_4},
        "checksum fletcher32 of HDF5 is left",
    ),
    (
        {"compression": "lzf"},
        {"compressor": DEFAULT_COMPRESSOR["zarr2"]},
        "'lzf' is not known; the default is",
    ),
]


@pytest.mark.filterwarnings("ignore:lzf compression may not:UserWarning")
@pytest.mark.parametrize(("options", "members", "warning"), H5_OPTIONS, ids=lambda value: str(value)[:40])
def test_options_of_hdf5_in_a_store(
    options: dict[str, Any], members: dict[str, Any], warning: str, tmp_path: Path
) -> None:
    data = H5DataIO(DATA, **options)
    warned = pytest.warns(UserWarning, match=warning) if warning else nullcontext()
    with warned, ZarrIO(tmp_path / "a", mode="w", format="zarr2") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", data)]))
    found = open_store(tmp_path / "a")
    assert {name: found.tree.nodes["/a"].document[name] for name in members} == members
    np.testing.assert_array_equal(found.dataset("/a").read(), DATA)


@pytest.mark.parametrize(
    ("given", "members"),
    [
        ({"compressor": numcodecs.GZip(4), "chunks": (4, 3)}, {"compressor": GZIP_4, "chunks": [4, 3]}),
        ({"compressors": numcodecs.GZip(4), "serializer": "auto"}, {"compressor": GZIP_4}),
        ({"compressor": None}, {"compressor": None}),
        ({"filters": [numcodecs.Delta("<i4")]}, {"compressor": DEFAULT_COMPRESSOR["zarr2"]}),
        ({"fill_value": 7}, {"fill_value": 7}),
        ({}, {"compressor": DEFAULT_COMPRESSOR["zarr2"], "fill_value": 0}),
    ],
    ids=str,
)
def test_wrappers_of_hdmf_zarr_say_what_they_said(
    given: dict[str, Any], members: dict[str, Any], tmp_path: Path
) -> None:
    wrapper = type("ZarrDataIO", (DataIO,), {"io_settings": given})
    with ZarrIO(tmp_path / "a", mode="w", format="zarr2") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", wrapper(data=DATA))]))
    found = open_store(tmp_path / "a")
    assert {name: found.tree.nodes["/a"].document[name] for name in members} == members
    np.testing.assert_array_equal(found.dataset("/a").read(), DATA)


def test_one_option_by_two_names_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match='"compressor" and "compressors" are one option'):
        ZarrDataIO(DATA, compressor="zstd", compressors="zstd")


@pytest.mark.parametrize("fill", [1e300, 1j, "x"])
def test_a_fill_value_beyond_a_floating_point_type_is_refused(fill: Any, tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a", mode="w") as io:
        dataset = DatasetBuilder("a", ZarrDataIO(DATA.astype("f4"), fillvalue=fill), dtype="float32")
        with pytest.raises(InvalidArgumentError, match=r"dataset /a: fill value .* is no float32"):
            io.write_builder(GroupBuilder("root", datasets=[dataset]))


@pytest.mark.parametrize("given", [{"dtype": np.dtype("u4")}, {"shape": (2, 2)}])
def test_data_has_its_own_type_and_shape(given: dict[str, Any]) -> None:
    """Those of the options were ignored."""
    with pytest.raises(InvalidArgumentError, match="dtype and shape are for data that is set later"):
        ZarrDataIO(DATA, **given)
