"""No creator makes anything in an array, in what isn't finished, or at a link: any format, any store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.kvstore.places.staging import JOURNAL, UNFINISHED
from chunkwise.dask import from_dask
from chunkwise.errors import AlreadyExistsError, ChunkwiseError

VALUES = np.arange(24, dtype="uint16").reshape(4, 6)
VOLUME = "neuroglancer_precomputed"
DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "zarr1": "zarr1", "n5": "n5", VOLUME: VOLUME}
STORES = {
    "file": "file://{at}/",
    "memory": "memory://",
    "archive": "file://{at}/x.zip|zip:",
    "database": "file://{at}/db/|ocdbt:",
}


def _open(format: str, place: cw.KvStore, **options: Any) -> cw.TensorStore:
    if format == VOLUME:
        scale = {"size": [4, 6, 1], "resolution": [1, 1, 1], "encoding": "raw"}
        kind = {"type": "image", "data_type": "uint16", "num_channels": 1}
        members: dict[str, Any] = {"multiscale_metadata": kind, "scale_metadata": scale}
    else:
        members = {"dtype": "uint16", "schema": {"domain": {"shape": [4, 6]}}}
    return cw.open({"driver": DRIVERS[format], **members}, kvstore=place, create=True, **options).result()


def _open_in_transaction(format: str, place: cw.KvStore) -> None:
    with cw.Transaction() as transaction:
        _open(format, place, transaction=transaction)


def _group() -> cw.Group:
    group = cw.create_group("memory://")
    group.create_array("one", VALUES)
    return group


def _from_dask(format: str, place: cw.KvStore, **options: Any) -> None:
    spec = {"driver": DRIVERS[format], "kvstore": place}
    from_dask(dask.array.from_array(VALUES, chunks=3), spec, scheduler="sync", **options)


CREATORS: dict[str, Callable[[str, cw.KvStore], object]] = {
    "open": _open,
    "open what may exist": lambda format, place: _open(format, place, open=True),
    "open, deleting": lambda format, place: _open(format, place, delete_existing=True),
    "open in a transaction": _open_in_transaction,
    "create_array": lambda format, place: cw.create_array(place, VALUES, format=format),
    "overwrite": lambda format, place: cw.create_array(place, VALUES, format=format, overwrite=True),
    "create_group": lambda format, place: cw.create_group(place, format=format),
    "copy_tree": lambda format, place: cw.copy_tree(_group(), place, format=format),
    "copy": lambda format, place: cw.copy(cw.array(VALUES), place, format=format),
    "from_dask": _from_dask,
    "from_dask, deleting": lambda format, place: _from_dask(format, place, delete_existing=True),
    "pyramid": lambda format, place: cw.downsample_pyramid(cw.array(VALUES), place, levels=1).result(),
}


PLACES = [("memory", outer) for outer in ("zarr3", "zarr2", "zarr1", "n5")] + [
    (store, "zarr3") for store in STORES if store != "memory"
]


@pytest.mark.parametrize(("store", "outer"), PLACES)
def test_nothing_is_made_inside_an_array(tmp_path: Path, store: str, outer: str) -> None:
    root = cw.KvStore.open(STORES[store].format(at=tmp_path)).result()
    array = _open(outer, root / "a/")
    array.write(VALUES).result()
    before = {key: root.read(key).result().value for key in root.list().result()}
    for format in DRIVERS:
        for name, create in CREATORS.items():
            with pytest.raises(ChunkwiseError) as refused:
                create(format, root / ("a/c/0/" if store == "file" else "a/x/y/"))
            is_first = "is an array; nothing can be below it" in str(refused.value)
            # Some writers write no such format; N5 counts the directories of the archive.
            assert is_first or format in ("zarr1", VOLUME, "n5"), (name, format, refused.value)
    after = {key: root.read(key).result().value for key in root.list().result()}
    assert after == before


@pytest.mark.parametrize("mark", [JOURNAL, UNFINISHED])
@pytest.mark.parametrize("store", ["file", "memory"])
def test_nothing_is_made_in_what_is_not_finished(tmp_path: Path, store: str, mark: str) -> None:
    root = cw.KvStore.open(STORES[store].format(at=tmp_path)).result()
    root.write(f"a/{mark}", b"{}").result()
    for format in DRIVERS:
        for name, create in CREATORS.items():
            with pytest.raises(ChunkwiseError) as refused:
                create(format, root / "a/x/y/")
            is_first = "is being written, or its writing was interrupted" in str(refused.value)
            assert is_first or format in ("zarr1", VOLUME), (name, format, refused.value)
    assert root.list().result() == [f"a/{mark}".encode()]


@pytest.mark.parametrize("outer", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("store", ["file", "memory"])
def test_nothing_is_made_at_a_link_or_below(tmp_path: Path, store: str, outer: str) -> None:
    """It would be hidden by the link in some doors, and hide the link's target in others."""
    root = cw.KvStore.open(STORES[store].format(at=tmp_path)).result()
    group = cw.create_group(root / "g/", format=outer)
    group.create_array("real/a", VALUES)
    group.create_link("link", "/real")
    before = {key: root.read(key).result().value for key in root.list().result()}
    for format in DRIVERS:
        for name, create in CREATORS.items():
            for place in ("g/link/", "g/link/new/"):
                with pytest.raises(ChunkwiseError) as refused:
                    create(format, root / place)
                is_first = "is a link to /real; make it there" in str(refused.value)
                assert is_first or format in ("zarr1", VOLUME, "n5") or outer == "n5", (name, refused.value)
    after = {key: root.read(key).result().value for key in root.list().result()}
    assert after == before


@pytest.mark.parametrize("format", DRIVERS)
def test_what_is_there_is_opened_and_replaced_as_before(tmp_path: Path, format: str) -> None:
    """The array itself, and one beside it, in a directory or a group."""
    root = cw.KvStore.open(f"file://{tmp_path}/").result()
    for _ in range(2):
        _open(format, root / "a/", delete_existing=True)
        _open(format, root / "a/", open=True)
    _open(format, root / "ab/")
    with pytest.raises(AlreadyExistsError):
        _open(format, root / "a/")


def test_an_array_made_in_the_same_transaction_counts(tmp_path: Path) -> None:
    root = cw.KvStore.open(f"file://{tmp_path}/").result()
    with cw.Transaction() as transaction:
        _open("zarr3", root / "a/", transaction=transaction)
        with pytest.raises(AlreadyExistsError, match="nothing can be below it"):
            _open("zarr3", root / "a/b/", transaction=transaction)
