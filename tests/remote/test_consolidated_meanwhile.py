"""What changes in a bucket while a tree is consolidated is in the copies, or it is gone through again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.trees import consolidated_tree


def _grow(tree: Any) -> None:
    tree["g0/a0"].resize(exclusive_max=[9]).result()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "attributes of an array": lambda tree: tree["g0/a0"].attrs.update(new=1),
    "attributes of a group": lambda tree: tree["g0"].attrs.update(new=1),
    "shape": _grow,
    "new array": lambda tree: tree.create_array("g0/new", np.arange(3)),
    "new group": lambda tree: tree.create_group("g9/new"),
    "array gone": lambda tree: tree.__delitem__("g1/a1"),
}


@pytest.fixture(scope="module")
def bucket(moto: str) -> str:
    return f"s3://{new_s3_bucket(moto)}"


@pytest.fixture(params=["zarr3", "zarr2"])
def place(bucket: str, moto: str, request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """URL of a new tree."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    url = f"{bucket}/{request.node.name}/"
    tree = cw.create_group(url, format=request.param, attributes={"title": "t"})
    for i in range(4):
        tree.create_array(f"g{i % 2}/a{i}", np.arange(4), attributes={"i": i} if i else {})
    return url


@pytest.mark.each_once
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", ["listed", "read again", "copies below"])
def test_changes(place: str, change: str, how: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    if how == "read again":
        monkeypatch.setattr(consolidated_tree, "_PAGE", 2)
    if how == "copies below":
        cw.open_group(place, mode="r+")["g0"].consolidate()
    todo = [CHANGES[change]]
    write = ObjectStore.write

    def write_late(self: ObjectStore, key: str, value: Any, **options: Any) -> bytes | None:
        tree_key = key.partition("/")[2]
        if tree_key in ("zarr.json", ".zmetadata") and todo:
            todo.pop()(cw.open_group(place, mode="r+"))
        return write(self, key, value, **options)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "write", write_late)
        assert main(["consolidate", place]) == 0
    assert not todo
    assert main(["consolidate", "--check", place]) == 0, capsys.readouterr()
