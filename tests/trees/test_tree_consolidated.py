"""Consolidated metadata: zarr-python's are read, ours are read by it, and they stay true."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest
import zarr

import chunkwise as cw
from chunkwise.copying.verify import verify_nodes
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.trees.consolidated_tree import check_consolidated, remove_consolidated
from chunkwise.core.trees.node import require_node
from chunkwise.errors import FailedPreconditionError

FORMATS = {"zarr3": 3, "zarr2": 2}


@pytest.fixture(params=FORMATS)
def format(request):
    return request.param


@pytest.fixture
def group(tmp_path, format):
    group = cw.create_group(tmp_path / "x", format=format, attributes={"top": [1, None]})
    group.create_array("a/b/c", data=np.arange(5), attributes={"k": [1]})
    for name in ("q", "q-x", "q.x", "q/z"):
        group.create_group(name)
    assert group.consolidate() == []
    return group


def by_zarr(path, format):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return zarr.open_consolidated(str(path), zarr_format=FORMATS[format], mode="r")


def assert_true(group, format):
    """Consolidated metadata tell of the tree what the nodes themselves do, to us and to zarr-python."""
    assert check_consolidated(require_node(group.location)) == []
    path = "/" + group.location.path.rstrip("/")
    seen, true = cw.open_group(path), cw.open_group(path, consolidated=False)
    assert dict(seen.attrs) == dict(true.attrs)
    theirs = by_zarr(path, format)
    assert dict(theirs.attrs) == dict(true.attrs)
    members = dict(theirs.members(max_depth=None))
    walked = dict(true.walk())
    assert dict(seen.walk()).keys() == walked.keys() == members.keys()
    for name, member in walked.items():
        assert dict(seen[name].attrs) == dict(member.attrs) == dict(members[name].attrs)
        if isinstance(member, cw.TensorStore):
            assert seen[name].shape == member.shape == members[name].shape
            assert seen[name].spec().to_json() == member.spec().to_json()


def test_every_change_is_followed(group, tmp_path, format):
    assert_true(group, format)
    group["a"].attrs["new"] = 2
    assert_true(group, format)
    group["a/b/c"].attrs.update(new=2, other={"x": 1})
    assert_true(group, format)
    group.attrs["top"] = 3
    assert_true(group, format)
    group["a/b/c"].resize(exclusive_max=[9]).result()
    assert_true(group, format)
    group.create_array("a/d", shape=(3, 3), dtype="float32", attributes={"i": 1})
    assert_true(group, format)
    group.create_group("new/er", attributes={"i": 1})
    assert_true(group, format)
    del group["q"]
    assert_true(group, format)
    group.move("a", "new/a")
    assert_true(group, format)
    group.copy("new", "copy")
    assert_true(group, format)
    group.create_link("new/link", "/copy")
    assert_true(group, format)
    group.create_array("a/d", data=[1])
    group.create_array("a/d", data=[1, 2], overwrite=True)
    assert_true(group, format)
    # Without the tree: by a driver, as TensorStore's users do it.
    url = f"file://{tmp_path}/x/driver/|{'zarr3' if format == 'zarr3' else 'zarr2'}"
    store = cw.open(url, create=True, dtype="int8", shape=[3]).result()
    assert_true(group, format)
    store.resize(exclusive_max=[7]).result()
    store.attrs["x"] = 1
    assert_true(group, format)
    assert cw.open_group(tmp_path / "x")["driver"].shape == (7,)


def test_groups_in_groups(group, tmp_path, format):
    group["a"].consolidate()
    assert_true(group, format)
    assert_true(group["a"], format)
    group["a/b/c"].attrs["z"] = 1
    group["a"].create_group("h")
    assert_true(group, format)
    assert_true(group["a"], format)


def test_what_zarr_python_writes(tmp_path, format):
    path = str(tmp_path / "x")
    theirs = zarr.create_group(path, zarr_format=FORMATS[format], attributes={"r": 1})
    inner = theirs.create_group("s").create_group("t", attributes={"k": float("nan")})
    inner.create_array("a", shape=(4,), dtype="uint8", attributes={"i": [1]})[:] = 7
    theirs.create_array("b", shape=(2, 3), chunks=(1, 3), dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path, zarr_format=FORMATS[format])
    group = cw.open_group(path, consolidated=True)
    assert [name for name, _ in group.walk()] == ["b", "s", "s/t", "s/t/a"]
    assert group["s/t"].attrs["k"] != group["s/t"].attrs["k"]
    assert group["s/t/a"].attrs == {"i": [1]} and group["s/t/a"].read().result().tolist() == [7] * 4
    assert check_consolidated(require_node(group.location)) == []
    writable = cw.open_group(path, "r+")
    writable["s/t/a"].attrs["new"] = 1
    writable["s/t"].create_group("u")
    assert_consolidated = by_zarr(path, format)
    assert assert_consolidated["s/t/a"].attrs["new"] == 1 and "u" in assert_consolidated["s/t"]
    assert check_consolidated(require_node(group.location)) == []


def test_what_zarr_python_adds_without_consolidating(tmp_path, format):
    """A reader of the copy doesn't find it, and is told how to; a reader of the nodes does."""
    path = str(tmp_path / "x")
    theirs = zarr.create_group(path, zarr_format=FORMATS[format])
    theirs.create_group("s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path, zarr_format=FORMATS[format])
    zarr.open_group(path, mode="a", use_consolidated=False).create_group("s/new")
    for copy in (cw.open_group(path), cw.open_group(path)["s"]):
        with pytest.raises(KeyError) as raised:
            copy["/s/new"]
        assert "consolidated=False" in "".join(raised.value.__notes__)
    nodes = cw.open_group(path, consolidated=False)
    assert nodes["s/new"].path == "s/new"
    with pytest.raises(KeyError) as raised:
        nodes["s/old"]
    assert "consolidated" not in "".join(getattr(raised.value, "__notes__", ()))


def test_both_write_the_same(tmp_path, format):
    cw.create_group(tmp_path / "x", format=format).create_array("s/t/a", data=[1], attributes={"i": 1})
    group = cw.open_group(tmp_path / "x", "r+")
    group.create_group("r")
    key = "zarr.json" if format == "zarr3" else ".zmetadata"

    def written():
        document = json.loads((tmp_path / "x" / key).read_text())
        return document["consolidated_metadata"] if format == "zarr3" else document

    group.consolidate()
    ours = written()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(str(tmp_path / "x"), zarr_format=FORMATS[format])
    theirs = written()
    assert ours.keys() == theirs.keys() and ours["metadata"].keys() == theirs["metadata"].keys()
    if format == "zarr3":
        assert {k: v for k, v in ours.items() if k != "metadata"} == {
            k: v for k, v in theirs.items() if k != "metadata"
        }
        assert ours["metadata"]["s"] == theirs["metadata"]["s"]
    assert check_consolidated(require_node(group.location)) == []


def test_what_is_wrong_is_told(group, tmp_path, format):
    store = FileStore(tmp_path / "x")
    key = "zarr.json" if format == "zarr3" else ".zmetadata"
    document = json.loads(bytes(store.read(key).value))
    copies = (document["consolidated_metadata"] if format == "zarr3" else document)["metadata"]
    array, one = ("a/b/c", "q/z") if format == "zarr3" else ("a/b/c/.zarray", "q/z/.zgroup")
    copies[array]["shape"] = [99]
    copies["ghost" if format == "zarr3" else "ghost/.zgroup"] = copies.pop(one)
    store.write(key, json.dumps(document).encode())
    problems = check_consolidated(require_node(group.location))
    assert len(problems) == 3
    assert any(f'"{array}" are not' in p for p in problems)
    assert any('"ghost' in p and "does not exist" in p for p in problems)
    assert any(f'lack "{one}"' in p for p in problems)
    reports = {report.name: report for report in verify_nodes(require_node(group.location))}
    assert len(reports[""].bad) == 3 and all(not r.bad for name, r in reports.items() if name)
    assert cw.open_group(tmp_path / "x")["a/b/c"].shape == (99,), "as every reader that believes them"
    assert cw.open_group(tmp_path / "x", consolidated=False)["a/b/c"].shape == (5,)
    group.consolidate()
    assert_true(group, format)


def test_without(group, tmp_path, format):
    with pytest.raises(ValueError, match="for reading"):
        cw.open_group(tmp_path / "x", "r+", consolidated=True)
    with pytest.raises(ValueError, match='mode "r"'):
        cw.open_group(tmp_path / "x").consolidate()
    with pytest.raises(ValueError, match="only groups of Zarr"):
        cw.create_group(tmp_path / "x.n5").consolidate()
    assert remove_consolidated(group.location) and not remove_consolidated(group.location)
    with pytest.raises(FileNotFoundError, match="no consolidated"):
        cw.open_group(tmp_path / "x", consolidated=True)
    assert cw.open_group(tmp_path / "x", consolidated=False)["a/b/c"].shape == (5,)
    assert check_consolidated(require_node(group.location)) == []


def test_nodes_of_another_format_are_left_out(tmp_path, format):
    other = "zarr2" if format == "zarr3" else "zarr3"
    group = cw.create_group(tmp_path / "x", format=format)
    group.create_array("own", data=[1])
    group.create_array("other", data=[1], format=other)
    assert group.consolidate() == ["other"]
    assert list(cw.open_group(tmp_path / "x")) == ["own"]
    assert list(cw.open_group(tmp_path / "x", consolidated=False)) == ["other", "own"]


def test_unknown_and_hostile_ones(tmp_path, format):
    group = cw.create_group(tmp_path / "x", format=format)
    group.create_array("a", data=[1])
    group.consolidate()
    store = FileStore(tmp_path / "x")
    key = "zarr.json" if format == "zarr3" else ".zmetadata"
    document = json.loads(bytes(store.read(key).value))

    def put(change):
        copy = json.loads(json.dumps(document))
        change(copy["consolidated_metadata"] if format == "zarr3" else copy)
        store.write(key, json.dumps(copy).encode())

    def hostile(consolidated):
        copies = consolidated["metadata"]
        first = next(value for name, value in copies.items() if name.startswith("a"))
        suffix = "" if format == "zarr3" else "/.zarray"
        for name in ("../evil", "a/../../evil", "", "a//b", "x\\y", "a\0"):
            copies[name + suffix if name else "/" + suffix] = first
        copies["odd" + suffix] = 7

    put(hostile)
    opened = cw.open_group(tmp_path / "x")
    assert [name for name, _ in opened.walk()] == ["a"]
    put(lambda c: c.update(kind="other", zarr_consolidated_format=9))
    assert [name for name, _ in cw.open_group(tmp_path / "x").walk()] == ["a"], "from the nodes themselves"
    assert "unknown kind" in check_consolidated(require_node(group.location))[0]
    put(lambda c: c.update(metadata=[1]))
    assert [name for name, _ in cw.open_group(tmp_path / "x").walk()] == ["a"]


def test_a_tree_with_a_broken_node_is_not_consolidated(group, tmp_path, format):
    (tmp_path / "x" / "q" / ("zarr.json" if format == "zarr3" else ".zgroup")).write_text("{")
    before = (tmp_path / "x" / ("zarr.json" if format == "zarr3" else ".zmetadata")).read_text()
    with pytest.raises(FailedPreconditionError, match="JSON"):
        group.consolidate()
    assert (tmp_path / "x" / ("zarr.json" if format == "zarr3" else ".zmetadata")).read_text() == before


PROGRAM = """
import sys
import chunkwise as cw
path, who = sys.argv[1:]
group = cw.open_group(path, "r+", context=cw.Context({"file_io_sync": False}))
for i in range(6):
    group.create_group(f"{who}/g{i}", attributes={"i": i})
    if i % 3 == 0:
        group.consolidate()
"""


def test_consolidating_while_others_write(tmp_path, format, children):
    group = cw.create_group(tmp_path / "x", format=format)
    started = [
        children.start([sys.executable, "-c", PROGRAM, str(tmp_path / "x"), f"p{i}"]) for i in range(4)
    ]
    assert [process.wait(100) for process in started] == [0] * 4
    assert_true(group, format)
    assert len(dict(cw.open_group(tmp_path / "x").walk())) == 4 * 7
