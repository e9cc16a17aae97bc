"""``attrs``: each format's own place, nothing else touched, nothing lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from cli_arrays import DRIVERS, Run, make, read

import chunkwise as cw
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.node import require_node
from chunkwise.core.trees.node_attributes import Attributes

VALUES = np.arange(12, dtype="u1").reshape(3, 4)
PLACES = {"zarr3": "zarr.json", "zarr2": ".zattrs", "zarr1": "attrs", "n5": "attributes.json"}


@pytest.mark.parametrize("format", list(DRIVERS))
def test_set_get_remove(run: Run, tmp_path: Path, format: str) -> None:
    make(tmp_path / "a", format, VALUES, (2, 2))
    assert run("attrs", tmp_path / "a").out == ""
    value = {"nested": [1, 2.5, "µ", True]}
    assert run("attrs", tmp_path / "a", "set", "key", json.dumps(value)).status == 0
    assert run("attrs", tmp_path / "a", "set", "other", "1.0").status == 0
    document = json.loads((tmp_path / "a" / PLACES[format]).read_text())
    assert (document["attributes"] if format == "zarr3" else document)["key"] == value
    assert run("attrs", tmp_path / "a", "--json").json == {"key": value, "other": 1.0}
    assert json.loads(run("attrs", tmp_path / "a", "get", "key").out) == value
    assert run("attrs", tmp_path / "a", "get", "key", "--json").json == value
    assert run("attrs", tmp_path / "a").out.splitlines()[1] == "other = 1.0"
    assert run("attrs", tmp_path / "a", "rm", "key").status == 0
    assert run("attrs", tmp_path / "a", "--json").json == {"other": 1.0}
    missing = run("attrs", tmp_path / "a", "rm", "key")
    assert missing.status == 1 and 'no attribute "key"' in missing.err
    assert run("attrs", tmp_path / "a", "get", "key").status == 1
    assert np.array_equal(read(tmp_path / "a"), VALUES)


def test_the_metadata_of_the_array_stays_as_it_was(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", VALUES, (2, 2))
    before = json.loads((tmp_path / "a/zarr.json").read_text())
    before["later"] = {"must_understand": False, "x": 1}
    (tmp_path / "a/zarr.json").write_text(json.dumps(before, indent=3))
    run("attrs", tmp_path / "a", "set", "k", "[1]")
    text = (tmp_path / "a/zarr.json").read_text()
    assert json.loads(text) == {**before, "attributes": {"k": [1]}}
    assert text.splitlines()[1].startswith('   "')  # indented as before


def test_n5_paths_and_protected_members(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "n5", VALUES, (2, 2))
    assert run("attrs", tmp_path / "a", "set", "ms[1]/name", '"s1"').status == 0
    assert run("attrs", tmp_path / "a", "get", "ms[1]/name").out == '"s1"\n'
    assert run("attrs", tmp_path / "a", "get", "dimensions[0]").out == "3\n"
    for key in ("dimensions", "/blockSize", "dataType/x", "compression/type", "n5"):
        result = run("attrs", tmp_path / "a", "set", key, "1")
        assert result.status == 1 and "can't be changed" in result.err
    assert run("attrs", tmp_path / "a", "rm", "dimensions").status == 1
    assert run("attrs", tmp_path / "a", "set", "resolution", "[1, 2]").status == 0
    assert np.array_equal(read(tmp_path / "a"), VALUES)


def test_an_implicit_n5_group_gets_a_document(run: Run, tmp_path: Path) -> None:
    cw.create_container(tmp_path / "c.n5")
    make(tmp_path / "c.n5/g/a", "n5", VALUES, (2, 2))
    assert run("attrs", tmp_path / "c.n5/g", "set", "k", "1").status == 0
    assert json.loads((tmp_path / "c.n5/g/attributes.json").read_text()) == {"k": 1}
    assert run("attrs", tmp_path / "c.n5", "--json").json == {"n5": "2.0.0"}


def test_other_nulls_of_an_n5_document_are_kept(run: Run, tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g/attributes.json").write_text('{"a": null, "b": {"c": null}}')
    run("attrs", tmp_path / "g", "set", "d", "1")
    assert json.loads((tmp_path / "g/attributes.json").read_text()) == {"a": None, "b": {"c": None}, "d": 1}


@pytest.mark.parametrize("version", [2, 3])
def test_consolidated_metadata_stays_true(run: Run, tmp_path: Path, version: int) -> None:
    root = zarr.open_group(tmp_path / "g", mode="w", zarr_format=version)
    array = root.create_group("sub").create_array("a", shape=(4,), chunks=(2,), dtype="i4")
    array.attrs["old"] = 1
    zarr.consolidate_metadata(tmp_path / "g")
    assert run("attrs", tmp_path / "g/sub/a", "set", "new", "[2]").status == 0
    assert run("attrs", tmp_path / "g/sub/a", "rm", "old").status == 0
    assert run("attrs", tmp_path / "g/sub", "set", "s", '"x"').status == 0
    assert run("attrs", tmp_path / "g", "set", "r", "true").status == 0
    format = "zarr2" if version == 2 else "zarr3"
    options = ["--format", format, "--shape", "6", "--dtype", "uint8"]
    assert run("create", tmp_path / "g/sub/deep/b", *options).status == 0

    again = zarr.open_consolidated(tmp_path / "g", zarr_format=version)
    assert dict(again["sub/a"].attrs) == {"new": [2]}
    assert dict(again["sub"].attrs) == {"s": "x"} and dict(again.attrs) == {"r": True}
    assert again["sub/deep/b"].shape == (6,)

    assert run("cp", tmp_path / "g/sub/a", tmp_path / "g/c", "--format", format).status == 0
    assert zarr.open_consolidated(tmp_path / "g", zarr_format=version)["c"].shape == (4,)
    if version == 2:
        assert not json.loads((tmp_path / "g/.zmetadata").read_text())["metadata"].get("sub/deep/b/.zattrs")


@pytest.mark.parametrize("format", list(DRIVERS))
def test_writers_at_the_same_time_lose_nothing(tmp_path: Path, format: str) -> None:
    make(tmp_path / "a", format, VALUES, (2, 2))
    node = require_node(locate(tmp_path / "a"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: Attributes(node).update({f"k{i}": i}), range(40)))
    document = json.loads((tmp_path / "a" / PLACES[format]).read_text())
    attributes = document["attributes"] if format == "zarr3" else document
    assert {k: v for k, v in attributes.items() if k[0] == "k"} == {f"k{i}": i for i in range(40)}


@pytest.mark.parametrize(
    "text", ["", "{", '{"a"}', "NaN", "'x'", "[1,]", "Infinity", "1e400", '{"a": [-1e999]}']
)
def test_what_is_no_json_is_a_wrong_command_line(run: Run, tmp_path: Path, text: str) -> None:
    make(tmp_path / "a", "zarr2", VALUES, (2, 2))
    result = run("attrs", tmp_path / "a", "set", "k", text)
    assert result.status == 2 and "JSON" in result.err
    assert not (tmp_path / "a/.zattrs").exists()


@pytest.mark.parametrize("format", list(DRIVERS))
@pytest.mark.parametrize("text", ['"\\ud800"', '{"a\\udc00": 1}'])
def test_half_a_surrogate_pair_is_refused(run: Run, tmp_path: Path, format: str, text: str) -> None:
    make(tmp_path / "a", format, VALUES, (2, 2))
    before = {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir() if file.is_file()}
    result = run("attrs", tmp_path / "a", "set", "k", text)
    assert result.status and "surrogate" in result.err
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir() if file.is_file()}


@pytest.mark.parametrize("format", list(DRIVERS))
@pytest.mark.parametrize("damage", ['{"a": ', "[1]", "\xff"])
def test_damaged_documents(run: Run, tmp_path: Path, format: str, damage: str) -> None:
    make(tmp_path / "a", format, VALUES, (2, 2))
    path = tmp_path / "a" / PLACES[format]
    path.write_bytes(damage.encode("latin-1"))
    for arguments in ([], ["set", "k", "1"], ["rm", "k"]):
        result = run("attrs", tmp_path / "a", *arguments)
        assert result.status == 1 and PLACES[format] in result.err
    assert path.read_bytes() == damage.encode("latin-1")
