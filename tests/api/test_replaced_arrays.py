"""Handles of an array that this process replaces, moves or deletes never write over others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

FORMATS = ["zarr3", "zarr2", "n5"]
DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}


def _spec(format: str, root: Path) -> dict[str, Any]:
    return {"driver": DRIVERS[format], "kvstore": f"file://{root}/g/a/"}


HANDLES: dict[str, Callable[[str, Path], cw.TensorStore]] = {
    "open": lambda format, root: cw.open(_spec(format, root)).result(),
    "no recheck": lambda format, root: cw.open(_spec(format, root), recheck_cached=False).result(),
    "cache": lambda format, root: cw.open(
        _spec(format, root), context=cw.Context({"cache_pool": {"total_bytes_limit": 10**6}})
    ).result(),
    "open_array": lambda format, root: cw.open_array(root / "g/a", mode="r+"),
    "group": lambda format, root: cw.open_group(root, "r+")["g/a"],
    "group above": lambda format, root: cw.open_group(root / "g", "r+")["a"],
    "link": lambda format, root: cw.open_group(root / "link", "r+")["a"],
    "view": lambda format, root: cw.open(_spec(format, root)).result()[0:4],
    "cast": lambda format, root: cw.cast(cw.open(_spec(format, root)).result(), "float64"),
    "stack": lambda format, root: cw.overlay([cw.open(_spec(format, root)).result()]),
    "transaction": lambda format, root: (
        cw.open(_spec(format, root)).result().with_transaction(cw.Transaction())
    ),
}


def _copied(format: str, root: Path) -> None:
    cw.copy(root / "other", root / "g/a", format=format, overwrite=True)


def _deleted_and_made(format: str, root: Path) -> None:
    del cw.open_group(root, "r+")["g/a"]
    cw.create_array(root / "g/a", np.zeros(8), format=format)


def _moved(format: str, root: Path) -> None:
    group = cw.open_group(root, "r+")
    group.move("g/a", "g/b")
    group.move("other", "g/a")


def _in_transaction(format: str, root: Path) -> None:
    with cw.Transaction() as transaction:
        _opened(format, root, transaction=transaction)


def _opened(format: str, root: Path, **options: Any) -> None:
    cw.open(
        _spec(format, root), create=True, delete_existing=True, dtype="float64", shape=[8], **options
    ).result()


CHANGES: dict[str, Callable[[str, Path], object]] = {
    "open": _opened,
    "create_array": lambda format, root: cw.create_array(root / "g/a", np.zeros(8), overwrite=True),
    "group": lambda format, root: cw.open_group(root, "r+").create_array("g/a", np.zeros(8), overwrite=True),
    "group above": lambda format, root: cw.create_group(root / "g", overwrite=True).create_array(
        "a", np.zeros(8)
    ),
    "copy": _copied,
    "delete": _deleted_and_made,
    "move": _moved,
    "transaction": _in_transaction,
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("change", CHANGES)
def test_no_handle_writes_over_the_new_array(format: str, change: str, tmp_path: Path) -> None:
    root = tmp_path / "r"
    group = cw.create_group(root, format=format)
    group.create_array("g/a", np.ones(8, "int16"), chunks=(4,))
    group.create_array("other", np.zeros(8), chunks=(4,))
    (root / "link").symlink_to("g")
    handles = {name: open(format, root) for name, open in HANDLES.items()}
    CHANGES[change](format, root)
    for name, handle in handles.items():
        for use in (lambda h=handle: h[0:4].write(3).result(), lambda h=handle: h.read().result()):
            with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
                use()
                pytest.fail(name)
    found = cw.open_array(root / "g/a")
    assert found.dtype.name == "float64"
    assert not found.read().result().any()


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_an_array_of_consolidated_metadata(format: str, tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "r", format=format)
    group.create_array("a", np.ones(8, "int16"))
    group.consolidate()
    before = cw.open_group(tmp_path / "r", consolidated=True)
    cw.create_array(tmp_path / "r/a", np.zeros(8), overwrite=True)
    with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
        before["a"].read().result()


def test_a_deleted_array_is_not_written(tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "r")
    group.create_array("a", np.ones(8, "int16"), chunks=(4,))
    handle = cw.open_array(tmp_path / "r/a", mode="r+")
    del group["a"]
    with pytest.raises(ValueError, match=r"FAILED_PRECONDITION: Metadata at .* does not exist"):
        handle[0:4].write(3).result()
    assert not (tmp_path / "r/a").exists()


@pytest.mark.parametrize("format", FORMATS)
def test_the_same_kind_of_array_is_followed(format: str, tmp_path: Path) -> None:
    def make(size: int) -> None:
        cw.create_array(
            tmp_path / "a", shape=(size,), dtype="int16", chunks=(4,), format=format, overwrite=True
        )

    make(8)
    handle = cw.open_array(tmp_path / "a", mode="r+")
    handle[...] = 1
    make(12)
    assert handle.read().result().tolist() == [0] * 12
    handle.resolve().result()[8:12] = 2
    assert cw.open_array(tmp_path / "a").read().result().tolist() == [0] * 8 + [2] * 4


@pytest.mark.parametrize("format", FORMATS)
def test_handles_of_a_group_share_their_metadata(format: str, tmp_path: Path) -> None:
    context = cw.Context()
    group = cw.open_group(tmp_path / "r", "w", format=format, context=context)
    handles = [
        group.create_array("g/a", shape=(8,), dtype="int16", chunks=(4,)),
        group["g/a"],
        group["g"]["a"],
        cw.open(_spec(format, tmp_path / "r"), context=context).result(),
        cw.open_array(tmp_path / "r/g/a", mode="r+", context=context),
    ]
    for size, one in enumerate(handles, 9):
        one.resize(exclusive_max=[size]).result()
        assert [handle.resolve().result().shape for handle in handles] == [(size,)] * len(handles)
