"""Copies of trees: between all formats and stores, with attributes and links, and a report of the rest."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.errors import AlreadyExistsError, LossWarning, UnsupportedError

FORMATS = ("zarr3", "zarr2", "n5")


def make(path, format, **options):
    group = cw.create_group(path, format=format, attributes={"title": "x", "list": [1, {"a": 2}]}, **options)
    group.create_array(
        "raw/s0",
        data=np.arange(60, dtype="uint16").reshape(6, 10),
        chunks=(3, 4),
        dimension_names=["y", "x"],
        dimension_units=["4 nm", "5 nm"],
        attributes={"k": {"z": [1]}},
        codec="zstd:1",
    )
    group.create_group("raw/empty", attributes={"e": True})
    group.create_link("raw/link", "s0")
    group.create_link("top", "/raw")
    return group


def assert_same(a, b):
    assert [path for path, _ in a.walk()] == [path for path, _ in b.walk()]
    for path, member in [("", a), *a.walk()]:
        other = b[path] if path else b
        ignored = {
            "_LINKS",
            "zarr_link",
            "_ARRAY_DIMENSIONS",
            "dimension_units",
            "axes",
            "units",
            "resolution",
        }
        assert {k: v for k, v in member.attrs.items() if k not in ignored} == {
            k: v for k, v in other.attrs.items() if k not in ignored
        }
        if isinstance(member, cw.Group):
            assert member.links() == other.links()
        else:
            np.testing.assert_array_equal(member.read().result(), other.read().result())
            assert member.chunk_layout.read_chunk.shape == other.chunk_layout.read_chunk.shape


@pytest.mark.parametrize("target", FORMATS)
def test_between_formats(tmp_path, format, target):
    source = make(tmp_path / "a", format)
    copy = cw.create_group(tmp_path / "b", format=target)
    report = copy.copy(source, "/", verify=True)
    assert (report.n_groups, report.n_arrays, report.n_links) == (3, 1, 2)
    assert report.nbytes == 120 and report.left_out == []
    assert_same(source, copy)
    back = cw.create_group(tmp_path / "c", format=format)
    back.copy(copy, "/")
    assert_same(source, back)
    assert back["raw/s0"].dimension_units == source["raw/s0"].dimension_units
    if format != "zarr2":
        assert back["raw/s0"].domain == source["raw/s0"].domain


def test_within_a_tree(tmp_path, format):
    group = make(tmp_path / "a", format)
    group.copy("raw", "deep/er/copy")
    assert_same_but_links(group["raw"], group["deep/er/copy"])
    assert group["deep/er/copy"].links() == {"link": cw.Link("/deep/er/copy/s0")}
    group.copy("raw/s0", "one")
    assert group["one"].read().result().sum() == group["raw/s0"].read().result().sum()
    with pytest.raises(AlreadyExistsError):
        group.copy("raw", "one")
    with pytest.raises(ValueError, match="inside"):
        group.copy("raw", "raw/again")
    with pytest.raises(ValueError, match="inside"):
        group.copy("/", "again")
    with pytest.raises(KeyError):
        group.copy("nope", "x")
    with pytest.raises(TypeError, match="int"):
        group.copy(7, "x")
    with pytest.raises(ValueError, match="view"):
        group.copy(group["one"][1:], "x")
    with pytest.raises(ValueError, match="nowhere"):
        group.copy(cw.array([1]), "x")
    with pytest.raises(ValueError, match="colour"):
        group.copy(group["one"], "x", options={"colour": "red"})
    group.copy(group["one"], "two", options={"chunks": (6, 10), "dtype": "f4", "codec": "gzip:1"})
    assert group["two"].dtype == cw.float32 and group["two"].chunk_layout.read_chunk.shape == (6, 10)


def assert_same_but_links(a, b):
    assert [path for path, _ in a.walk()] == [path for path, _ in b.walk()]


def test_between_stores(format):
    context = cw.Context()
    source = make("memory://a/", format, context=context)
    target = cw.create_group("memory://", format=format)
    target.copy(source["raw"], "r")
    assert target["r/s0"].read().result().sum() == 1770
    done = []
    target.copy(source, "all", progress=lambda path, nbytes: done.append((path, nbytes)))
    assert {path for path, _ in done} == {"raw/s0"} and sum(n for _, n in done) == 120


def test_links_out_of_what_is_copied(tmp_path, format):
    source = make(tmp_path / "a", format)
    source.create_link("raw/out", "/top")
    source.create_link("raw/far", "/x", source="../elsewhere")
    target = cw.create_group(tmp_path / "deep" / "b", format=format)
    report = target.copy(source["raw"], "r")
    links = target["r"].links()
    assert links["link"] == cw.Link("/r/s0")
    assert links["out"] == cw.Link("/top", "../../a") and links["far"] == cw.Link("/x", "../../elsewhere")
    assert [path for path, _ in report.notes] == ["out"]
    opened = cw.open_group(tmp_path / "deep" / "b", external_links=True)
    assert opened["r/out/s0"].read().result().sum() == 1770


def test_what_n5_cannot_hold(tmp_path):
    source = cw.create_group(
        tmp_path / "a",
        format="zarr3",
        non_finite="literal",
        attributes={"n5": 1, "nothing": None, "nan": math.nan, "kept": 1},
    )
    source.create_array("c", data=np.arange(3) * 1j)
    source.create_array("i", shape=(4,), dtype="int16", fill_value=5, chunks=(2,), shards=(4,))
    source.create_group(
        "d", attributes={"dimensions": [1], "blockSize": [1], "dataType": "int8", "compression": {}}
    )
    target = cw.create_group(tmp_path / "b", format="n5")
    with pytest.warns(LossWarning, match='c: array is left out: N5 has no data type "complex128"'):
        report = target.copy(source, "/")
    assert [path for path, _ in report.left_out] == ["c"] and "complex128" in report.left_out[0][1]
    assert target.attrs.asdict().keys() == {"nan", "kept"} and target.attrs["nan"] == "NaN"
    assert target["i"].read().result().tolist() == [5] * 4
    told = " | ".join(f"{path}: {note}" for path, note in report.notes)
    for word in ('"n5"', '"nothing"', '"nan"', "fill value", '"dimensions"'):
        assert word in told
    assert isinstance(target["d"], cw.Group)
    with pytest.raises(ValueError, match="complex128"):
        cw.create_group(tmp_path / "c", format="n5").copy(source, "/", strict=True)


def test_an_unfinished_copy_goes_on(tmp_path, format):
    source = make(tmp_path / "a", format)
    for i in range(4):
        source.create_array(f"many/a{i}", data=np.full((50, 50), i))
    target = cw.create_group(tmp_path / "b", format=format)

    class Stop(Exception):
        pass

    def stop(path, nbytes):
        if path.endswith("a2"):
            raise Stop

    with pytest.raises(Stop):
        target.copy(source, "x", progress=stop)
    with pytest.raises(ValueError, match="unfinished copy"):
        target["x"]
    with pytest.raises(AlreadyExistsError, match="begun and not finished"):
        target.copy(source, "x")
    report = target.copy(source, "x", resume=True)
    assert report.n_arrays == 5
    assert [path for path, _ in source.walk()] == [path for path, _ in target["x"].walk()]
    target.copy(source, "x", resume=True)
    assert target["x/many/a3"].read().result().sum() == 3 * 2500
    assert target["x"].links() == {"top": cw.Link("/x/raw")}


def test_directories_that_are_no_nodes_are_named(tmp_path, format):
    """Chunks whose array has lost its document, for example; `strict` refuses a copy that lacks something."""
    source = make(tmp_path / "a", format)
    source.create_array("lost", data=np.arange(4).reshape(2, 2), chunks=(1, 2))
    document = {"zarr3": "zarr.json", "zarr2": ".zarray", "n5": "attributes.json"}[format]
    (tmp_path / "a/lost" / document).unlink()
    names = ["raw/x.txt", "deep/er/x.txt", "raw/.DS_Store", "desk/.DS_Store"]
    for name in names:
        (tmp_path / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / name).write_text("x")
    (tmp_path / "a" / "empty").mkdir()
    with pytest.warns(LossWarning, match="raw/x.txt: is left out: it is no array or group"):
        report = cw.copy_tree(tmp_path / "a", tmp_path / "b")
    chunks = {"zarr3": ["lost/c/0/0", "lost/c/1/0"], "zarr2": ["lost/0.0"], "n5": ["lost/0/0", "lost/1/0"]}[
        format
    ]
    assert {path for path, note in report.notes if "is left out" in note} == {*names[:2], *chunks}
    with pytest.raises(UnsupportedError, match="it is no array or group, so the copy would lack it"):
        cw.copy_tree(tmp_path / "a", tmp_path / "c", strict=True)
    assert not (tmp_path / "c").exists()


LINK = {"name": "l", "path": "/raw", "source": "."}
OTHERS = {
    "names": ["a", "b"],
    "text": "x",
    "null": None,
    "object": {"a": 1},
    "path": [{"name": "x/y", "path": "/raw"}],
    "number": [LINK, 5],
}


@pytest.mark.parametrize("attribute", ["_LINKS", "zarr_link"])
@pytest.mark.parametrize("what", OTHERS)
def test_attributes_of_links_that_have_something_else(tmp_path, format, what, attribute):
    """The links are kept, and the rest is named as left out."""
    cw.create_group(tmp_path / "a", format=format).create_group("raw")
    document = tmp_path / "a" / {"zarr3": "zarr.json", "zarr2": ".zattrs", "n5": "attributes.json"}[format]
    members = json.loads(document.read_text()) if document.exists() else {}
    (members.setdefault("attributes", {}) if format == "zarr3" else members)[attribute] = OTHERS[what]
    document.write_text(json.dumps(members))
    with pytest.warns(LossWarning, match=f'attribute "{attribute}" is left out, except for its links'):
        cw.copy_tree(tmp_path / "a", tmp_path / "b")
    links = cw.open_group(tmp_path / "b").links()
    assert links == ({"l": cw.Link("/raw")} if what == "number" else {})
