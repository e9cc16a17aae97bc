"""Links: followed when they are needed, never in circles, never out of the tree unless that is allowed."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.trees.link import links_of
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, NodeNotFoundError


@pytest.fixture
def group(tmp_path, format):
    group = cw.create_group(tmp_path / "x", format=format)
    group.create_array("a/b", data=np.arange(5), attributes={"k": 1})
    return group


def test_soft_links(group, tmp_path):
    group.create_link("s", "a")
    group.create_link("t/u", "../s/b")
    group.create_link("t/v/w", "../u")
    group.create_link("later", "/t/new")
    assert group["s"].path == "a" and group["s/b"].path == "a/b" and group["t/v/w"].path == "a/b"
    assert group["t/u"].attrs["k"] == 1 and group["t"]["u"].read().result().sum() == 10
    assert "s/b" in group and "later" not in group and group.get("later") is None
    assert group.links() == {"s": cw.Link("/a"), "later": cw.Link("/t/new")}
    assert group.get_link("t/u") == cw.Link("/s/b") and group.get_link("t") is None
    assert group.get_link("nope/x") is None and str(group.get_link("s")) == "/a"
    assert list(group) == ["a", "later", "s", "t"]
    assert [name for name, _ in group.items()] == ["a", "s", "t"]
    assert [path for path, _ in group.walk()] == ["a", "a/b", "t", "t/v"]
    group.create_group("t/new")
    assert group["later"].path == "t/new"
    with pytest.raises(KeyError):
        group["s/nope"]
    again = cw.open_group(tmp_path / "x")
    assert again["t/v/w"].path == "a/b" and again["t/v"].links() == {"w": cw.Link("/t/u")}


def test_names_are_taken_once(group):
    group.create_link("s", "a")
    for make in (
        lambda: group.create_link("s", "a"),
        lambda: group.create_link("a", "b"),
        lambda: group.create_group("s"),
        lambda: group.create_group("s/c"),
        lambda: group.create_array("s", data=[1]),
        lambda: group.create_array("s/c", data=[1]),
        lambda: group.move("a", "s"),
        lambda: group.create_link("s/x", "a"),
    ):
        with pytest.raises(AlreadyExistsError):
            make()
    for name in ("..", "zarr.json", "a\\b"):
        with pytest.raises(ValueError):
            group.create_link(name, "a")
    with pytest.raises(ValueError, match="root"):
        group.create_link("/", "a")
    assert list(group["a"]) == ["b"]


def test_circles(group):
    group.create_link("c1", "c2")
    group.create_link("c2", "c1")
    group.create_link("c3", "c3/x")
    for path in ("c1", "c2/x", "c3", "c3/y"):
        with pytest.raises(FailedPreconditionError, match="circle"):
            group[path]
    assert [name for name, _ in group.items()] == ["a"]
    for i in range(30):
        group.create_link(f"chain{i}", f"chain{i + 1}" if i < 29 else "a")
    assert group["chain0/b"].path == "a/b"
    # Twice through the same link is no circle.
    group.create_link("r", "/a")
    group.create_link("a/r2", "/r/b")
    assert group["r/r2"].path == "a/b"


def test_soft_links_stay_in_the_tree(group, tmp_path):
    with pytest.raises(ValueError, match="above the root"):
        group.create_link("up", "../../secret")
    key = {"zarr3": "zarr.json", "zarr2": ".zattrs", "n5": "attributes.json"}[group.format]
    for target in ("../secret", "/../secret", "a/../../secret", "a\\..\\..", "/a\0"):
        links = [{"name": "up", "path": target, "source": "."}]
        store = FileStore(tmp_path / "x")
        found = store.read(key).value
        document = {} if found is None else json.loads(bytes(found))
        (document.setdefault("attributes", {}) if key == "zarr.json" else document)["_LINKS"] = links
        store.write(key, json.dumps(document).encode())
        opened = cw.open_group(tmp_path / "x", external_links=True)
        with pytest.raises(ValueError, match=r"above the root|can't be the path"):
            opened["up"]
        assert "up" not in dict(opened.items())


def test_external_links(group, tmp_path, format):
    other = cw.create_group(tmp_path / "y" / "z", format="zarr3" if format == "n5" else "n5")
    other.create_array("far/a", data=np.arange(4))
    other.create_link("back", "/a", source="../../x")
    group.create_link("e", "/far", source="../y/z")
    group.create_link("url", "/far/a", source=f"file://{tmp_path}/y/z/")
    group.create_link("path", "/far/a", source=f"{tmp_path}/y/z")
    group.create_link("round", "/back/b", source="../y/z")
    group.create_link("inside", "/b", source="a")
    for name in ("e", "e/a", "url", "path", "round"):
        with pytest.raises(FailedPreconditionError, match="external_links"):
            group[name]
    assert group.get("inside") is not None, "does not leave the tree"
    asked = []
    opened = cw.open_group(
        tmp_path / "x", "r+", external_links=lambda s, u: asked.append((s, u)) or "y/z" in u
    )
    assert opened["e/a"].read().result().tolist() == [0, 1, 2, 3]
    assert asked == [("../y/z", f"file://{tmp_path}/y/z/")]
    assert opened["url"].shape == opened["path"].shape == (4,)
    with pytest.raises(FailedPreconditionError, match="external_links"):
        opened["round"]
    opened = cw.open_group(tmp_path / "x", "r+", external_links=True)
    assert opened["round"].read().result().tolist() == [0, 1, 2, 3, 4]
    assert opened["e"].mode == "r", "the other tree is not changed through a link"
    with pytest.raises(ValueError, match='mode "r"'):
        opened["e"].attrs["x"] = 1
    with pytest.raises(ValueError, match="another tree"):
        del opened["e/a"]
    group.create_link("gone", "/a", source="../nowhere")
    with pytest.raises(FileNotFoundError):
        cw.open_group(tmp_path / "x", external_links=True)["gone"]
    assert "gone" not in cw.open_group(tmp_path / "x", external_links=True)


def test_sources_stay_in_the_store(format):
    context = cw.Context()
    group = cw.create_group("memory://m/", format=format, context=context)
    group.create_link("up", "/a", source="../../../..")
    with pytest.raises(ValueError, match="out of the store"):
        cw.open_group("memory://m/", context=context, external_links=True)["up"]


def test_change_through_and_of_links(group):
    group.create_link("s", "a")
    group["s"].create_array("c", data=[1])
    del group["s/b"]
    assert list(group["a"]) == ["c"]
    group.attrs["kept"] = 1
    group.move("s", "t/s2")
    assert group["t/s2"].path == "a" and "s" not in group
    del group["t/s2"]
    assert group["t"].links() == {} and list(group["t"].attrs) == [] and "a" in group
    assert group.attrs["kept"] == 1
    for path in ("t/s2", "nope/x"):
        with pytest.raises(NodeNotFoundError):
            del group[path]


def test_others_entries(tmp_path):
    """Entries with more members, in the other attribute, or without sense."""
    group = cw.create_group(tmp_path / "x", format="zarr2")
    group.create_group("a")
    group.attrs["_LINKS"] = [
        {"name": "new", "path": "/a", "source": "."},
        7,
        {"name": "bad/er", "path": "/a"},
    ]
    group.attrs["zarr_link"] = [
        {"name": "old", "path": "/a", "source": ".", "object_id": "x"},
        {"name": "half"},
    ]
    group = cw.open_group(tmp_path / "x", "r+")
    assert list(group.links()) == ["old", "new"]
    group.create_link("mine", "/a")
    stored = json.loads((tmp_path / "x" / ".zattrs").read_text())
    assert stored["zarr_link"][0]["object_id"] == "x"
    assert stored["zarr_link"][-1] == {"name": "mine", "path": "/a", "source": "."}
    del group["new"]
    assert (
        "new" not in group.links() and json.loads((tmp_path / "x" / ".zattrs").read_text())["_LINKS"][0] == 7
    )
    assert links_of(group["a"]._node) == {}


def test_in_consolidated_metadata(tmp_path):
    for format in ("zarr3", "zarr2"):
        group = cw.create_group(tmp_path / format, format=format)
        group.create_array("a/b", data=[1, 2])
        group.consolidate()
        group.create_link("a/l", "/a/b")
        opened = cw.open_group(tmp_path / format, consolidated=True)
        assert opened["a/l"].read().result().tolist() == [1, 2]
        assert opened["a"].keys() == ["b", "l"] and "-> /a/b" in str(opened.tree())


def test_a_node_at_the_place_of_a_link_is_what_all_doors_show(tmp_path, format):
    """Other programs can put one there; chunkwise refuses to."""
    group = cw.create_group(tmp_path / "t", format=format)
    group.create_array("b", data=np.arange(5))
    group.create_link("link", "/b")
    shutil.copytree(tmp_path / "t/b", tmp_path / "t/link")
    cw.open(tmp_path / "t/link", read=True, write=True).result()[...] = 7
    group = cw.open_group(tmp_path / "t")
    assert group["link"].read().result().tolist() == [7] * 5 and list(group) == ["b", "link"]
    assert "-> /b" not in str(group.tree())
    shutil.rmtree(tmp_path / "t/link")
    if format != "n5":  # in which a directory is a group
        (tmp_path / "t/link").mkdir()
    assert group["link"].read().result().tolist() == [*range(5)] and "-> /b" in str(group.tree())
