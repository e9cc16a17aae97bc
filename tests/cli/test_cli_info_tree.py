"""``info``, ``tree`` and ``create``: what is said of arrays and hierarchies, decodable or not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts
import zarr
from cli_arrays import DRIVERS, Run, make, read

import chunkwise as cw
from chunkwise.copying.journal import Journal
from chunkwise.core.libraries import LIBRARIES
from chunkwise.core.trees.location import locate

VALUES = np.arange(35 * 20, dtype="u2").reshape(35, 20)


@pytest.mark.parametrize("format", list(DRIVERS))
def test_info_counts_what_is_stored(run: Run, tmp_path: Path, format: str) -> None:
    values = VALUES.copy()
    values[:10, :10] = 0
    path = tmp_path / "a"
    make(path, format, values, (10, 10), **({} if format == "n5" else {"fill_value": 0}))
    info = run("info", path, "--json").json
    assert (info["format"], info["shape"], info["chunks"]) == (format, [35, 20], [10, 10])
    documents = ("zarr.json", ".zarray", "attributes.json", "meta", "attrs")
    chunks = [f for f in path.rglob("*") if f.is_file() and f.name not in documents]
    assert info["stored"]["chunks"] == len(chunks) == 7 and info["stored"]["possible_chunks"] == 8
    assert info["stored"]["bytes"] == sum(f.stat().st_size for f in chunks)
    assert info["stored"]["decoded_bytes"] == 1400
    text = run("info", path).out
    assert "35 × 20" in text and "7 of 8 chunks" in text
    assert "stored" not in run("info", path, "--no-count", "--json").json


@pytest.mark.parametrize("format", ["zarr3", "n5"])  # Zarr v2 has units in attributes of conventions only
@pytest.mark.parametrize(
    ("given", "shown"),
    [("um", "µm"), ("1 um", "µm"), ("4 nm", "4 nm"), ("0.5 us", "0.5 µs"), ("micrometer", "micrometer")],
)
def test_info_of_units(run: Run, tmp_path: Path, format: str, given: str, shown: str) -> None:
    """A number is shown where there is one, and the same for all formats."""
    cw.create_array(
        tmp_path / "a",
        np.zeros((2, 3), "u1"),
        format=format,
        dimension_units=[given, None],
        dimension_names=["y", "x"],
    )
    rows = dict(line.split(maxsplit=1) for line in run("info", tmp_path / "a").out.splitlines())
    assert rows["units"] == f"{shown}, -"


def test_info_of_chunks_of_different_sizes(run: Run, tmp_path: Path) -> None:
    sizes = [[2, 3, 5], 4, [[3, 2], 1, 1, 1, 1, 1, 1]]
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": sizes}}
    metadata = {"shape": [10, 6, 12], "data_type": "uint8", "chunk_grid": grid}
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/", "metadata": metadata, "create": True}
    cw.open(spec).result()
    assert "chunks       [2, 3, 5] × 4 × [3 (2 times), 1 (6 times)]" in run("info", tmp_path / "a").out
    assert run("info", tmp_path / "a", "--json").json["chunks"] == [[2, 3, 5], 4, [[3, 2], [1, 6]]]
    assert "chunks [2, 3, 5] × 4" in run("tree", tmp_path / "a").out


def test_info_of_shards_names_and_units(run: Run, tmp_path: Path) -> None:
    options = ["--shape", "35,20", "--dtype", "uint16", "--chunk", "5,5", "--shard", "10,10"]
    options += [
        "--codec",
        "blosc:zstd:3:bitshuffle",
        "--labels",
        "y,x",
        "--units",
        "4 nm,",
        "--fill-value",
        "7",
    ]
    assert run("create", tmp_path / "a.zarr", *options).status == 0
    cw.open(str(tmp_path / "a.zarr")).result()[0:6, 0:3] = 1
    info = run("info", tmp_path / "a.zarr", "--json").json
    assert (info["chunks"], info["shards"]) == ([5, 5], [10, 10])
    assert info["codecs"] == ["blosc:zstd:3:bitshuffle"] and info["fill_value"] == 7
    assert info["dimension_names"] == ["y", "x"] and info["dimension_units"] == ["4 nm", None]
    stored = info["stored"]
    assert (stored["chunks"], stored["possible_chunks"]) == (1, 8)
    assert (stored["inner_chunks"], stored["possible_inner_chunks"]) == (2, 28)


def test_info_of_what_cannot_be_decoded(run: Run, tmp_path: Path) -> None:
    document = {
        "dimensions": [5, 3],
        "blockSize": [3, 2],
        "dataType": "uint8",
        "compression": {"type": "mystery"},
    }
    (tmp_path / "a.n5").mkdir()
    (tmp_path / "a.n5/attributes.json").write_text(json.dumps(document))
    result = run("info", tmp_path / "a.n5")
    assert result.status == 1
    assert "5 × 3" in result.out and "mystery" in result.out and '"mystery" is not registered' in result.err
    tree = run("tree", tmp_path)
    assert tree.status == 0 and "(5, 3)" in tree.out and "mystery" in tree.out


def test_info_errors(run: Run, tmp_path: Path) -> None:
    missing = run("info", tmp_path / "missing")
    assert missing.status == 1 and str(tmp_path / "missing") in missing.err and not missing.out
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/zarr.json").write_text("{]")
    bad = run("info", tmp_path / "bad")
    assert bad.status == 1 and "zarr.json" in bad.err and "Invalid JSON" in bad.err
    assert run("info", "").status == 1
    assert run("info", "gopher://x/y").status == 1
    assert run("info").status == 2


def test_info_of_the_system(run: Run) -> None:
    """Versions, what does the work, the machine, and every extra; a PATH and --system exclude each other."""
    info = run("info", "--system", "--json").json
    assert info["chunkwise"] == cw.__version__ and info["processors"] >= 1 < info["memory"]
    assert info["libraries"] == {library.work: library.used for library in LIBRARIES}
    assert set(info["files"]) == {"locks", "rename", "names"}
    assert info["packages"]["numpy"] == np.__version__
    assert info["extras"]["dask"]["dask"] and "all" not in info["extras"]
    text = run("info", "--system").out
    assert all(name in text for name in (*info["libraries"].values(), *info["files"].values()))
    assert "takes a PATH or --system" in run("info").err
    assert "takes a PATH or --system" in run("info", "a", "--system").err
    assert "--no-count is for a PATH" in run("info", "--system", "--no-count").err


def test_urls_are_paths_too(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a b", "zarr3", VALUES, (10, 10))
    url = f"file://{tmp_path}/a%20b/"
    assert run("info", url, "--json").json["shape"] == [35, 20]
    assert run("cp", url, f"file://{tmp_path}/c.n5").status == 0
    assert np.array_equal(read(tmp_path / "c.n5"), VALUES)


def hierarchy(root: Path) -> None:
    cw.create_container(root / "c.n5")
    for name in ("s0", "s1", "s10", "s2"):
        make(root / "c.n5/vol" / name, "n5", VALUES, (35, 20))
    make(root / "alone", "zarr1", VALUES, (35, 20))
    for version in (2, 3):
        group = zarr.open_group(root / f"g{version}", mode="w", zarr_format=version)
        group.create_group("empty")
        group.create_group("in").create_array("a", shape=(4,), chunks=(2,), dtype="<i4")
    (root / "files").mkdir()
    (root / "files/meta").write_text("not an array's")
    os.symlink(root, root / "c.n5/loop")


def test_tree_of_all_formats(run: Run, tmp_path: Path) -> None:
    hierarchy(tmp_path)
    result = run("tree", tmp_path, "--json")
    nodes = {node["name"]: node for node in result.json}
    assert list(nodes) == [
        "", "alone", "c.n5", "c.n5/vol", "c.n5/vol/s0", "c.n5/vol/s1", "c.n5/vol/s2", "c.n5/vol/s10",
        "g2", "g2/empty", "g2/in", "g2/in/a", "g3", "g3/empty", "g3/in", "g3/in/a",
    ]  # fmt: skip
    assert nodes["c.n5/vol"] == {"name": "c.n5/vol", "kind": "group", "format": "n5", "implicit": True}
    assert nodes["g2/in/a"]["shape"] == [4] and nodes["g2/in/a"]["dtype"] == "<i4"
    assert {nodes[name]["format"] for name in ("alone", "g2", "g3")} == {"zarr1", "zarr2", "zarr3"}
    lines = run("tree", tmp_path / "c.n5").out.splitlines()
    assert lines[1].startswith("└── vol")
    assert lines[2].startswith("    ├── s0") and lines[5].startswith("    └── s10")
    assert "(35, 20)" in lines[2] and "chunks 35 × 20" in lines[2]


def test_tree_shows_damage_and_goes_on(run: Run, tmp_path: Path) -> None:
    hierarchy(tmp_path)
    (tmp_path / "g3/in/a/zarr.json").write_text("{")
    result = run("tree", tmp_path)
    assert result.status == 0 and "Invalid JSON" in result.out and "alone" in result.out
    assert run("tree", tmp_path / "nothing").status == 1


@pytest.mark.parametrize("format", list(DRIVERS))
def test_create_is_what_was_asked_for(run: Run, tmp_path: Path, format: str) -> None:
    options = ["--shape", "100x80", "--dtype", "float32", "--chunk", "30,20", "--codec", "gzip:2"]
    result = run("create", tmp_path / "a", "--format", format, *options, "--attributes", '{"k": [1]}')
    assert result.status == 0, result.err
    array = cw.open(str(tmp_path / "a")).result()
    assert (array.shape, array.dtype.name) == ((100, 80), "float32")
    assert array.chunk_layout.write_chunk.shape == (30, 20)
    assert run("attrs", tmp_path / "a", "--json").json == {"k": [1]}
    assert run("info", tmp_path / "a", "--json").json["codecs"] == ["gzip:2"]
    again = run("create", tmp_path / "a", "--format", format, *options)
    assert again.status == 1 and "is an array already" in again.err


@pytest.mark.parametrize("text", ["nan", "NaN", "0x7fc00001", "-inf", "1e3", "2"])
def test_fill_values(run: Run, tmp_path: Path, text: str) -> None:
    options = ["--shape", "3", "--dtype", "float32", "--fill-value", text]
    assert run("create", tmp_path / "a.zarr", *options).status == 0
    (value,) = set(read(tmp_path / "a.zarr").view("u4").tolist())
    expected = 0x7FC00001 if text.startswith("0x") else int(np.float32(text).view("u4"))
    assert value == expected


@pytest.mark.each_once
@pytest.mark.parametrize(
    "codec", ["none", "zstd:3", "gzip:1", "zlib:1", "lz4", "bz2:1", "xz:1", "blosc:lz4:1"]
)
@pytest.mark.parametrize("format", list(DRIVERS))
def test_codecs_are_peers_codecs(run: Run, tmp_path: Path, format: str, codec: str) -> None:
    path = tmp_path / "a"
    options = ["--shape", "35,20", "--chunk", "10,10", "--dtype", "uint16", "--codec", codec]
    assert run("create", path, "--format", format, *options).status == 0
    cw.open(str(path)).result().write(VALUES).result()
    assert np.array_equal(read(path), VALUES)
    if format in ("zarr2", "zarr3"):
        assert np.array_equal(zarr.open_array(path, mode="r")[...], VALUES)
    elif format == "n5" and codec != "lz4":  # which TensorStore doesn't know
        peer = ts.open({"driver": "n5", "kvstore": f"file://{path}"}).result()
        assert np.array_equal(peer.read().result(), VALUES)


def test_a_container_gets_its_version_and_keeps_what_it_has(run: Run, tmp_path: Path) -> None:
    options = ["--shape", "4", "--dtype", "uint8"]
    assert run("create", tmp_path / "c.n5/deep/a", *options).status == 0
    assert json.loads((tmp_path / "c.n5/attributes.json").read_text()) == {"n5": "2.0.0"}
    assert not (tmp_path / "c.n5/deep/attributes.json").exists()
    (tmp_path / "d.n5").mkdir()
    (tmp_path / "d.n5/attributes.json").write_text('{"n5":"4.0.0","mine":[1]}')
    assert run("create", tmp_path / "d.n5/a", *options).status == 0
    assert (tmp_path / "d.n5/attributes.json").read_text() == '{"n5":"4.0.0","mine":[1]}'
    assert run("create", tmp_path / "e.n5", *options).status == 0
    document = json.loads((tmp_path / "e.n5/attributes.json").read_text())
    assert document["n5"] == "2.0.0" and document["dimensions"] == [4]
    (tmp_path / "d.n5/attributes.json").write_text('{"n5":"5.0.0"}')
    refused = run("create", tmp_path / "d.n5/b", *options)
    assert refused.status == 1 and "Incompatible N5 version 5.0.0" in refused.err
    refused = run("cp", tmp_path / "e.n5", tmp_path / "d.n5/b")
    assert refused.status == 1 and "Incompatible N5 version 5.0.0" in refused.err
    assert not (tmp_path / "d.n5/b").exists()


def test_an_array_in_a_zarr_group_gets_the_groups_between(run: Run, tmp_path: Path) -> None:
    for version in (2, 3):
        zarr.open_group(tmp_path / f"g{version}", mode="w", zarr_format=version)
        options = ["--format", f"zarr{version}", "--shape", "4", "--dtype", "uint8"]
        assert run("create", tmp_path / f"g{version}/a/b/c", *options).status == 0
        group = zarr.open_group(tmp_path / f"g{version}", mode="r")
        assert group["a/b/c"].shape == (4,) and isinstance(group["a/b"], zarr.Group)
    assert (
        run("create", tmp_path / "plain/a", "--format", "zarr3", "--shape", "4", "--dtype", "uint8").status
        == 0
    )
    assert not (tmp_path / "plain/zarr.json").exists()


@pytest.mark.parametrize(
    ("status", "text", "options"),
    [
        (2, "--shape", ["--shape", "3,-1", "--dtype", "uint8"]),
        (2, "uint99", ["--shape", "3", "--dtype", "uint99"]),
        (2, "--dtype", ["--shape", "3"]),
        (2, "zstd", ["--shape", "3", "--dtype", "uint8", "--codec", "zstandard"]),
        (2, "JSON", ["--shape", "3", "--dtype", "uint8", "--codec", "{"]),
        (1, '"foo" is not registered', ["--shape", "3", "--dtype", "uint8", "--codec", '{"name": "foo"}']),
        (1, '"level"', ["--shape", "3", "--dtype", "uint8", "--codec", "zstd:99"]),
        (2, "300", ["--shape", "3", "--dtype", "uint8", "--fill-value", "300"]),
        (1, "divided", ["--shape", "9", "--dtype", "uint8", "--chunk", "2", "--shard", "9"]),
        (1, "--chunk", ["--shape", "9", "--dtype", "uint8", "--shard", "9"]),
        (2, "--attributes", ["--shape", "9", "--dtype", "uint8", "--attributes", "[1]"]),
    ],
)
def test_create_refuses(run: Run, tmp_path: Path, status: int, text: str, options: list[str]) -> None:
    result = run("create", tmp_path / "a.zarr", *options)
    assert result.status == status and text in result.err, result.err
    assert not (tmp_path / "a.zarr").exists()


def test_shards_are_refused_where_there_are_none(run: Run, tmp_path: Path) -> None:
    for format in ("zarr2", "n5"):
        options = ["--shape", "8", "--dtype", "uint8", "--chunk", "2", "--shard", "4"]
        result = run("create", tmp_path / "a", "--format", format, *options)
        assert result.status == 1 and "no shards" in result.err


def test_info_tells_of_an_unfinished_copy(run: Run, tmp_path: Path) -> None:
    """A copy of an image is a group before it is an image."""
    cw.create_group(tmp_path / "a.zarr")
    Journal(locate(tmp_path / "a.zarr"), {"source": "b.n5"}, 2).begin()
    assert "a copy to this place" in run("info", tmp_path / "a.zarr").out
    assert run("info", tmp_path / "a.zarr", "--json").json["unfinished"] is True
