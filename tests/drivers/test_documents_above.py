"""Documents of groups above an array: N5 container versions, and consolidated metadata."""

from __future__ import annotations

import json

import pytest
import zarr

import chunkwise as ts


def _n5(root, version):
    (root / "x.n5/a").mkdir(parents=True, exist_ok=True)
    (root / "x.n5/attributes.json").write_text(json.dumps({"n5": version}))
    return {"driver": "n5", "kvstore": f"file://{root}/x.n5/a/b/"}


@pytest.mark.parametrize("version", ["2.0.0", "4.9", 4, "4.0.0-SNAPSHOT", "abc", None])
def test_containers_that_can_be_read(version, tmp_path):
    spec = _n5(tmp_path, version)
    ts.open(spec, create=True, dtype="uint8", shape=[3]).result()[...] = 1
    assert ts.open(spec).result().read().result().tolist() == [1, 1, 1]


@pytest.mark.parametrize("version", ["5.0.0", 5, "11.2-alpha"])
def test_containers_that_are_too_new(version, tmp_path):
    ts.open(_n5(tmp_path, "2.0.0"), create=True, dtype="uint8", shape=[3]).result()
    spec = _n5(tmp_path, version)
    with pytest.raises(NotImplementedError, match=r"x\.n5/attributes\.json.*Incompatible N5 version"):
        ts.open(spec).result()
    new = {"driver": "n5", "kvstore": f"file://{tmp_path}/x.n5/new/"}
    with pytest.raises(NotImplementedError, match="Incompatible N5 version"):
        ts.open(new, create=True, dtype="uint8", shape=[3]).result()
    assert not (tmp_path / "x.n5/new").exists()


def test_a_container_that_is_a_dataset(tmp_path):
    spec = {"driver": "n5", "kvstore": f"file://{tmp_path}/data/"}
    ts.open(spec, create=True, dtype="uint8", shape=[3], open=True).result()
    path = tmp_path / "data/attributes.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "n5": "4.0.0"}))
    assert ts.open(spec).result().shape == (3,)
    path.write_text(json.dumps({**document, "n5": "5.0.0"}))
    with pytest.raises(NotImplementedError, match="Incompatible N5 version"):
        ts.open(spec).result()


@pytest.mark.parametrize("format", [2, 3])
def test_consolidated_metadata_stays_true(format, tmp_path):
    """When a driver creates, resizes or replaces an array, as zarr-python's readers see it."""
    root = zarr.open_group(tmp_path / "g", mode="w", zarr_format=format)
    root.create_group("h").create_array("old", shape=(4,), dtype="u1", chunks=(2,))
    zarr.consolidate_metadata(tmp_path / "g", zarr_format=format)
    driver = "zarr" if format == 2 else "zarr3"

    def spec(name):
        return {"driver": driver, "kvstore": f"file://{tmp_path}/g/h/{name}/"}

    def shapes():
        # read through the copies alone
        group = zarr.open_group(tmp_path / "g", mode="r", use_consolidated=True)
        return {name: array.shape for name, array in group["h"].arrays()}

    assert shapes() == {"old": (4,)}
    ts.open(spec("old")).result().resize(exclusive_max=[7]).result()
    assert shapes() == {"old": (7,)}
    ts.open(spec("new"), create=True, dtype="uint8", shape=[3, 3]).result()
    assert shapes() == {"old": (7,), "new": (3, 3)}
    ts.open(spec("new"), create=True, delete_existing=True, dtype="uint16", shape=[5]).result()
    assert shapes() == {"old": (7,), "new": (5,)}
    before = (tmp_path / "g" / (".zmetadata" if format == 2 else "zarr.json")).read_bytes()
    ts.open(spec("new"), open=True, create=True, dtype="uint16", shape=[5]).result()
    assert (tmp_path / "g" / (".zmetadata" if format == 2 else "zarr.json")).read_bytes() == before


def test_consolidated_metadata_in_a_transaction(tmp_path):
    """The copies change with the commit, not before, and not at all if it is given up."""
    root = zarr.open_group(tmp_path / "g", mode="w", zarr_format=2)
    root.create_array("a", shape=(4,), dtype="u1", chunks=(2,))
    zarr.consolidate_metadata(tmp_path / "g", zarr_format=2)
    copies = tmp_path / "g/.zmetadata"

    def shape():
        return json.loads(copies.read_text())["metadata"]["a/.zarray"]["shape"]

    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/g/a/"}
    for commit, after in ((False, [4]), (True, [9])):
        transaction = ts.Transaction()
        store = ts.open(spec, transaction=transaction).result()
        store.resize(exclusive_max=[9]).result()
        assert shape() == [4]
        if commit:
            transaction.commit_sync()
        else:
            transaction.abort()
        assert shape() == after
