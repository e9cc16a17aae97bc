"""Number of requests: one read for an array, one for a tree with consolidated metadata."""

from __future__ import annotations

import pytest
from tests.trace_store import TraceStore

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.location import locate

DOCUMENTS = {"zarr3": "zarr.json", "zarr2": ".zarray", "n5": "attributes.json"}
GROUPS = {"zarr3": 1, "zarr2": 2, "n5": 1}


def asked(trace: TraceStore) -> list[tuple[str, str]]:
    out = [(r.operation, r.key) for r in trace.requests]
    trace.requests.clear()
    return out


@pytest.fixture
def tree(trace, format):
    group = cw.create_group(trace, format=format, attributes={"top": 1})
    for i in range(20):
        group.create_array(f"g{i % 4}/a{i}", data=[i], attributes={"i": i})
    trace.requests.clear()
    return cw.open_group(trace, "r+", format=format)


def test_an_array_is_one_read_of_one_key(tree, trace, format):
    asked(trace)
    array = tree["g1/a5"]
    assert asked(trace) == [("read", f"g1/a5/{DOCUMENTS[format]}")]
    assert (array.shape, array.path) == ((1,), "g1/a5") and array.schema.dtype
    if format != "zarr2":
        assert array.attrs["i"] == 5
    assert asked(trace) == [], "nothing else is needed to describe it"
    if format == "zarr2":
        assert array.attrs["i"] == 5 and array.attrs["i"] == 5
        assert asked(trace) == [("read", "g1/a5/.zattrs")]
    assert array.read().result().tolist() == [5]
    assert len(asked(trace)) == 1, "its chunk"


def test_a_group_is_one_read_where_one_document_can_be_either(tree, trace, format):
    asked(trace)
    group = tree["g1"]
    assert len(asked(trace)) == GROUPS[format]
    array = group["a5"]
    assert asked(trace) == [("read", f"g1/a5/{DOCUMENTS[format]}")] and array.path == "g1/a5"
    assert "a9" in group and len(asked(trace)) == 1
    assert group["/g2/a6"].path == "g2/a6" and len(asked(trace)) == 1


def test_opening_a_tree(tree, trace, format):
    for mode in ("r", "r+"):
        asked(trace)
        cw.open_group(trace, mode, format=format)
        reads = asked(trace)
        assert all(operation == "read" for operation, _ in reads)
        # Zarr v2 is asked for consolidated metadata first, and for an array.
        assert len(reads) <= {"zarr3": 1, "zarr2": 3, "n5": 1}[format], reads


def test_iterating_opens_nothing(tree, trace, format):
    asked(trace)
    assert tree.keys() == ["g0", "g1", "g2", "g3"] and len(tree) == 4
    found = asked(trace)
    assert [f for f in found if f[0] == "list_children"] == [("list_children", "")] * 2
    assert [f for f in found if f[0] == "read"] in ([], [("read", ".zattrs")] * 2), "where links would be"


@pytest.mark.parametrize("format", ["zarr3", "zarr2"], indirect=True)
def test_a_consolidated_tree_is_one_read(tree, trace, format):
    tree.consolidate()
    asked(trace)
    opened = cw.open_group(trace, format=format)
    key = "zarr.json" if format == "zarr3" else ".zmetadata"
    assert asked(trace) == [("read", key)]
    assert sum(isinstance(member, cw.TensorStore) for _, member in opened.walk()) == 20
    assert opened.attrs == {"top": 1} and opened["g1/a5"].attrs == {"i": 5} and opened["g1"].attrs == {}
    assert opened["g1/a5"].shape == (1,) and list(opened["g2"]) == ["a10", "a14", "a18", "a2", "a6"]
    assert "nope" not in opened and "g1/nope" not in opened and not opened.links()
    assert "a19" in str(opened.tree()) and opened._repr_html_()
    assert asked(trace) == [], "the whole tree is known"
    assert opened["g1/a5"].read().result().tolist() == [5]
    assert len(asked(trace)) == 1, "a chunk"
    cw.open_group(trace)
    assert len(asked(trace)) == (1 if format == "zarr3" else 2), "zarr.json is looked for first"


def test_making_an_array(trace, format):
    group = cw.create_group(trace, format=format)
    asked(trace)
    group.create_array("a", shape=(10,), dtype="uint8")
    found = asked(trace)
    assert [key for operation, key in found if operation == "write"] == [f"a/{DOCUMENTS[format]}"]
    assert len(found) < 25, found


@pytest.mark.each_once
@pytest.mark.parametrize("target", ["zarr3", "zarr2", "n5"])
def test_a_copied_tree_of_small_arrays(tree, trace, format, target):
    """For each array, its documents and chunk are read and written once; a look at turns follows."""
    asked(trace)
    into = TraceStore(MemoryStore())
    cw.copy_tree(trace, into, format=target)
    documents = {"zarr3": {"zarr.json"}, "zarr2": {".zarray", ".zattrs"}, "n5": {"attributes.json"}}
    read = [key for _, key in asked(trace) if key.startswith("g1/a5/")]
    assert {f"g1/a5/{name}" for name in documents[format]} < set(read)
    assert len(read) == len(documents[format]) + 1
    there = [operation for operation, key in asked(into) if key.startswith("g1/a5/")]
    # An N5 dataset must not hide what is in its directory.
    expected = ["read"] + ["write"] * (1 + len(documents[target])) + ["list_children"] * (target == "n5")
    assert sorted(there) == sorted(expected)
    assert len(cw.open_group(into)["g1"]) == 5 and not list(cw.diff(trace, into))


class SlowStore(MemoryStore):
    """A store of which many requests are made at a time, with a log of them."""

    traits = MemoryStore.traits._replace(request_concurrency=4)

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[str, str]] = []

    def few_children(self, prefix):
        self.log.append(("list", prefix))
        return super().list_children(prefix)

    def read(self, key, **options):
        self.log.append(("read", key))
        return super().read(key, **options)

    def write(self, key, value, **options):
        self.log.append(("write", key))
        return super().write(key, value, **options)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_a_destination_is_listed_instead_of_read(format):
    store = SlowStore()
    made = cw.create_group(locate(store).child("p/source"), format=format)
    for i in range(3):
        made.create_array(f"a{i}", data=[i, i], chunks=1)
    store.log.clear()
    cw.copy_tree(locate(store).child("p/source"), locate(store).child("p/copy"))
    before = store.log[: [operation for operation, _ in store.log].index("write")]
    around = [key for operation, key in before if operation == "read" and not key.startswith("p/source/")]
    assert around == ["p/copy/.chunkwise-copy.json"], "the rest is in the listings"


def test_a_document_is_read_once_by_a_comparison():
    store = SlowStore()
    for side in ("left", "right"):
        made = cw.create_group(locate(store).child(side), format="zarr3")
        for i in range(3):
            made.create_array(f"a{i}", data=[i, i], chunks=1)
    store.log.clear()
    assert not cw.diff(locate(store).child("left"), locate(store).child("right"))
    documents = [key for _, key in store.log if "/a" in key and key.endswith("zarr.json")]
    assert sorted(documents) == [f"{side}/a{i}/zarr.json" for side in ("left", "right") for i in range(3)]
    made["a1"][1] = 9
    assert [d.what for d in cw.diff(locate(store).child("left"), locate(store).child("right"))] == ["values"]
