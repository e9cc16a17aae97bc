"""Values that are served equal those that are stored, for every peer that reads through HTTP."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
import tensorstore
import zarr
from npm_packages import installed
from served_data import CHUNKS, DTYPES, FORMATS, SHAPE, has_dtype, values_of, write_array, write_tree

import chunkwise

ZARRITA = Path(__file__).parent / "zarrita"


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("format", "dtype"), [(f, dtype) for f in FORMATS for dtype in DTYPES if has_dtype(f, dtype)]
)
def test_peers_read_every_type_of_every_format(tmp_path: Path, format: str, dtype: str) -> None:
    values = values_of(dtype)
    write_array(tmp_path / "tree", format, dtype, values)
    with chunkwise.serve(tmp_path / "tree") as server:
        base = f"{server.url}zarr3/tree/{dtype}"
        by_zarr = zarr.open_array(base, mode="r")
        assert by_zarr.dtype == values.dtype
        np.testing.assert_array_equal(by_zarr[...], values)
        np.testing.assert_array_equal(_tensorstore("zarr3", base), values)
        np.testing.assert_array_equal(chunkwise.open(base + "/").result().read().result(), values)
        by_n5 = _tensorstore("n5", f"{server.url}n5/tree/{dtype}")
        np.testing.assert_array_equal(by_n5, values)
        viewed = _tensorstore("zarr3", f"{server.url}viewer/tree/{dtype}")
        volume = _tensorstore("neuroglancer_precomputed", f"{server.url}precomputed/tree/{dtype}")
        wanted = values.astype(_BROWSER.get(dtype, dtype))
        np.testing.assert_array_equal(viewed, wanted)
        assert viewed.dtype == wanted.dtype == volume.dtype
        np.testing.assert_array_equal(volume[..., 0], wanted if format == "n5" else wanted.T)


_BROWSER = {"bool": "uint8", "float16": "float32", "float64": "float32", "int64": "uint64"}


def _tensorstore(driver: str, url: str) -> np.ndarray:
    opened = tensorstore.open({"driver": driver, "kvstore": url + "/"}, read=True).result()
    return opened.read().result()


def test_z5py_reads_what_is_fetched_key_by_key(tmp_path: Path, ask) -> None:
    import z5py

    written = write_tree(tmp_path / "tree", "zarr2")
    copy = tmp_path / "copy.n5"
    with chunkwise.serve(tmp_path / "tree") as server:
        for dtype in (t for t in written if has_dtype("n5", t)):
            cells = np.ndindex(*(-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True)))
            for key in ("attributes.json", *("/".join(map(str, cell)) for cell in cells)):
                got = ask(f"{server.url}n5/tree/{dtype}/{key}")
                assert got.status in (200, 404)
                if got.status == 200:
                    (copy / dtype / key).parent.mkdir(parents=True, exist_ok=True)
                    (copy / dtype / key).write_bytes(got.body)
        (copy / "attributes.json").write_bytes(ask(f"{server.url}n5/tree/attributes.json").body)
    container = z5py.File(str(copy), "r")
    for dtype in (t for t in written if has_dtype("n5", t)):
        np.testing.assert_array_equal(container[dtype][...].T, written[dtype])  # it has the last axis first


@pytest.mark.parametrize(
    ("format", "dtype"), [("zarr3", "int8"), ("zarr3-sharded", "int8"), ("zarr2", "uint8"), ("n5", "int8")]
)
def test_stored_bytes_are_passed_through_where_the_format_is_the_asked_one(
    tmp_path: Path, ask, format: str, dtype: str
) -> None:
    write_tree(tmp_path / "tree", format)
    space = "n5" if format == "n5" else "zarr3"
    files = [p for p in (tmp_path / "tree" / dtype).rglob("*") if p.is_file() and p.suffix != ".json"]
    chunks = [p for p in files if not p.name.startswith(".z")]
    assert len(chunks) > 3
    with chunkwise.serve(tmp_path / "tree") as server:
        for path in chunks:
            key = path.relative_to(tmp_path / "tree" / dtype).as_posix()
            assert ask(f"{server.url}{space}/tree/{dtype}/{key}").body == path.read_bytes()


def test_codecs_that_browsers_lack_are_replaced(tmp_path: Path, ask) -> None:
    for format in ("zarr3", "zarr2", "n5"):
        written = write_tree(tmp_path / format, format)
        with chunkwise.serve(tmp_path / format) as server:
            for dtype in written:
                document = json.loads(ask(f"{server.url}zarr3/{format}/{dtype}/zarr.json").body)
                names = {codec["name"] for codec in document["codecs"]}
                assert names <= {"bytes", "transpose", "gzip", "zstd", "blosc"}, (format, dtype)
                document = json.loads(ask(f"{server.url}n5/{format}/{dtype}/attributes.json").body)
                assert document["compression"]["type"] in {"raw", "gzip", "blosc", "zstd"}, (format, dtype)


def test_big_endian_text_and_fields_of_records(tmp_path: Path, ask) -> None:
    group = chunkwise.open_group(tmp_path / "t", "w", format="zarr2")
    zarr.create_array(str(tmp_path / "t/big"), data=np.arange(30, dtype=">i4"), zarr_format=2)
    records = np.zeros(10, [("x", "<f4"), ("n", "<u2")])
    records["x"], records["n"] = np.arange(10) / 2, np.arange(10) * 3
    group.create_array("records", records, chunks=(4,))
    zarr3 = chunkwise.open_group(tmp_path / "z", "w")
    zarr3.create_array("records", records, chunks=(4,))
    zarr.create_array(
        str(tmp_path / "z/big"),
        data=np.arange(30, dtype="i4").reshape(5, 6),
        chunks=(2, 6),
        serializer=zarr.codecs.BytesCodec(endian="big"),
    )
    n5 = chunkwise.open_group(tmp_path / "n", "w", format="n5")
    n5.create_array("text", np.array(["a", "bé", "", "ccc"], object), chunks=(3,), dtype="ustring")
    with chunkwise.serve(tmp_path / "t", tmp_path / "n", tmp_path / "z") as server:
        for tree in "tz":
            base = f"{server.url}zarr3/{tree}"
            by_zarr = zarr.open_group(base, mode="r")  # though it does not know the records beside
            np.testing.assert_array_equal(by_zarr["big"][...].ravel(), np.arange(30))
            for space in ("viewer", "n5"):
                driver = "n5" if space == "n5" else "zarr3"
                by_ts = _tensorstore(driver, f"{server.url}{space}/{tree}/big")
                np.testing.assert_array_equal(by_ts.ravel(), np.arange(30))
            for field in ("x", "n"):
                by_zarr = zarr.open_array(f"{base}/records/.fields/{field}", mode="r")
                np.testing.assert_array_equal(by_zarr[...], records[field])
                by_n5 = _tensorstore("n5", f"{server.url}n5/{tree}/records/.fields/{field}")
                np.testing.assert_array_equal(by_n5, records[field])
        assert zarr.open_array(f"{server.url}zarr3/n/text", mode="r")[...].tolist() == ["a", "bé", "", "ccc"]
        got = ask(f"{server.url}viewer/n/text/zarr.json")
        assert got.status == 501 and "neuroglancer has no data type" in json.loads(got.body)["error"]
        got = ask(f"{server.url}n5/z/records/attributes.json")
        assert got.status == 501 and ".fields/x" in json.loads(got.body)["error"]


def test_views_of_a_program_are_served_as_they_are_seen(tmp_path: Path) -> None:
    values = np.arange(24 * 20, dtype="u2").reshape(24, 20)
    stored = chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(8, 8))
    stack = chunkwise.stack([stored, stored])
    small = chunkwise.downsample(stored, [2, 2], "mean")
    what = {
        "part": stored[4:20, 3:],
        "cast": stored.astype("float32"),
        "stack": stack,
        "small": small,
        "numpy": values,
        "group": chunkwise.open_group(chunkwise.open_group(tmp_path / "g", "w").location),
    }
    with chunkwise.serve(what) as server:
        for name, wanted in (
            ("part", values[4:20, 3:]),
            ("cast", values.astype("f4")),
            ("stack", np.stack([values, values])),
            ("small", small.read().result()),
            ("numpy", values),
        ):
            by_zarr = zarr.open_array(f"{server.url}zarr3/{name}", mode="r")
            assert by_zarr.dtype == wanted.dtype
            np.testing.assert_array_equal(by_zarr[...], wanted)


def test_a_change_is_seen_by_the_next_request(tmp_path: Path) -> None:
    stored = chunkwise.create_array(tmp_path / "a.zarr", np.zeros((8, 8), "u2"), chunks=(4, 4), codec="bz2")
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        assert not _tensorstore("zarr3", f"{server.url}zarr3/a.zarr").any()
        stored[...] = 7
        assert (_tensorstore("zarr3", f"{server.url}zarr3/a.zarr") == 7).all()


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_a_small_tree_is_opened_with_one_request(tmp_path: Path, counted, format: str) -> None:
    tree = chunkwise.open_group(tmp_path / "tree", "w", format=format)
    tree.create_array("em/s0", np.arange(64).reshape(8, 8).astype("i4"), chunks=(4, 4), codec="gzip:1")
    tree.create_array("mask", np.ones((2, 2), "f8"))
    tree["em"].attrs["place"] = "here"
    url, asked = counted(chunkwise.asgi_app(tmp_path / "tree"))
    for space, dtype in (("zarr3", "float64"), ("viewer", "float32")):
        base = f"{url}{space}/tree"
        by_zarr = zarr.open_group(base, mode="r", zarr_format=3)
        members = dict(by_zarr.members(max_depth=None))
        assert {name: getattr(one, "shape", None) for name, one in members.items()} == {
            "em": None, "em/s0": (8, 8), "mask": (2, 2)
        }  # fmt: skip
        assert members["em"].attrs["place"] == "here" and members["mask"].dtype == dtype
        by_us = chunkwise.open_group(f"{base}/")
        assert [name for name, _ in by_us.arrays()] == ["mask"] and by_us["em/s0"].shape == (8, 8)
        assert set(asked) == {f"/{space}/tree/zarr.json"}
        np.testing.assert_array_equal(by_zarr["em/s0"][...], np.arange(64).reshape(8, 8))
        np.testing.assert_array_equal(by_us["em/s0"].read().result(), np.arange(64).reshape(8, 8))
        asked.clear()
    inner = json.loads(urlopen(f"{url}zarr3/tree/em/zarr.json").read())
    assert list(inner["consolidated_metadata"]["metadata"]) == ["s0"]


def test_trees_of_many_nodes_and_damaged_ones_are_looked_at_node_by_node(tmp_path: Path, ask) -> None:
    many, damaged = (chunkwise.open_group(tmp_path / name, "w") for name in ("many", "damaged"))
    for number in range(210):
        many.create_group(str(number))
    damaged.create_array("a", np.ones(3))
    damaged.create_array("b", np.ones(3))
    (tmp_path / "damaged/b/zarr.json").write_text("{")
    with chunkwise.serve(tmp_path / "many", tmp_path / "damaged") as server:
        for name in ("many", "damaged"):
            assert "consolidated_metadata" not in json.loads(ask(f"{server.url}zarr3/{name}/zarr.json").body)
        inner = zarr.open_array(f"{server.url}zarr3/damaged/a", mode="r")
        assert inner[...].tolist() == [1, 1, 1]
        assert "consolidated_metadata" in json.loads(ask(f"{server.url}zarr3/many/7/zarr.json").body)


def test_groups_that_are_stored_with_consolidated_metadata_have_them_whatever_their_size(
    tmp_path: Path, ask
) -> None:
    many = chunkwise.open_group(tmp_path / "many", "w")
    for number in range(210):
        many.create_group(str(number))
    records = np.zeros(2, [("a", "i4"), ("b", "f8")])  # a type that not all clients know
    many.create_array("records", records)
    many.consolidate()
    with chunkwise.serve(tmp_path / "many") as server:
        url = f"{server.url}zarr3/many"
        document = json.loads(ask(f"{url}/zarr.json").body)
        assert len(document["consolidated_metadata"]["metadata"]) == 211
        served = chunkwise.open_group(url)
        assert len(list(served)) == 211
        assert served["records"].read().result().tolist() == records.tolist()
        many.create_group("later")
        many.consolidate()
        time.sleep(2.1)  # for so long nodes are known
        assert len(list(chunkwise.open_group(url))) == 212


def test_zarrita_reads_every_type_of_every_format(tmp_path: Path) -> None:
    """It is the reader that browsers have."""
    written = {}
    for format in FORMATS:
        arrays = write_tree(tmp_path / format, format)
        arrays.pop("float16", None)  # which JavaScript has from Node 24 on
        written |= {f"{format}/{dtype}": values for dtype, values in arrays.items()}
    with chunkwise.serve(*(tmp_path / format for format in FORMATS)) as server:
        urls = [f"{server.url}zarr3/{name}" for name in written]
        command = ["node", installed(ZARRITA) / "read.js", *urls]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    for line, (name, values) in zip(done.stdout.splitlines(), written.items(), strict=True):
        found = json.loads(line)
        dtype = name.rpartition("/")[2]
        assert (found["dtype"], tuple(found["shape"])) == (dtype, values.shape)
        if dtype in ("int64", "uint64"):  # as text, since numbers of JavaScript have 53 bits
            assert found["values"] == [str(value) for value in values.ravel().tolist()]
        else:
            np.testing.assert_array_equal(np.array(found["values"], values.dtype), values.ravel())
