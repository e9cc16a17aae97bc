"""Others delete or replace the place of a writer at any of its requests.

Either the writer raises, and what others have made is as they made it, with nothing of the writer's in it; or
it succeeds, and what it has written is there as a whole, or was deleted or replaced as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import dask.array
import numpy as np
import pytest
import xarray as xr
from examples import draw
from failing_store import FailingStore, place_in
from rivals import STORES, Act, settle

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import in_staging
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import DOCUMENTS, find_documented
from chunkwise.dask import from_dask
from chunkwise.errors import ChunkwiseError
from chunkwise.xarray import write_dataset, write_datatree

FORMATS = ["zarr3", "zarr2", "n5"]
DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}
OURS = np.arange(1, 17, dtype="u1").reshape(4, 4)
THEIRS = np.arange(101, 117, dtype="u1").reshape(4, 4)
NAMES = ("a", "b", "c", "s0", "s1", "new")
"""Names in the place, of what writers write and others make."""
pytestmark = pytest.mark.filterwarnings("ignore:.*belong to no array or group:UserWarning")  # the rival's


class Tree(NamedTuple):
    """A tree whose group ``mid`` has the place of a writer; chunks of an array at ``mid`` may be below it."""

    store: Any
    format: str

    @property
    def name(self) -> str:
        return "c" if self.format == "zarr3" else "0"

    @property
    def place(self) -> Location:
        return self.at(f"mid/{self.name}")

    def at(self, path: str) -> Location:
        return place_in(self.store, f"{'top.n5' if self.format == 'n5' else 'top'}/{path}/")

    def group(self, path: str) -> cw.Group:
        return cw.open_group(self.at(path) if path else self.at("mid").parent, "r+", format=self.format)

    def fill(self, old: Callable[[Tree], object]) -> None:
        cw.create_group(place_in(self.store, self.at("mid").path[: -len("mid/")]), format=self.format)
        self.group("").create_group("mid")
        old(self)


def dataset(first: int = 0, *names: str) -> xr.Dataset:
    return xr.Dataset({name: ("t", np.arange(first, first + 4)) for name in names})


def old_dataset(tree: Tree) -> None:
    write_dataset(dataset(1, "a", "b"), tree.place, format=tree.format, consolidated=False)


def add(tree: Tree, names: str, mode: str) -> None:
    write_dataset(dataset(5, *names), tree.place, mode=mode, format=tree.format)


def write_tree(tree: Tree) -> None:
    datasets = xr.DataTree.from_dict({"/": dataset(5, "a"), "/g": dataset(5, "b", "c")})
    write_datatree(datasets, tree.place, format=tree.format)


def write_region(tree: Tree) -> None:
    write_dataset(dataset(5, "a", "b").isel(t=slice(0, 2)), tree.place, region={"t": slice(1, 3)})


def write_blocks(tree: Tree) -> None:
    size = {"dimensions": [8], "block_size": [4]}
    blocks = cw.create_n5_blocks(tree.place, **size, data_type="uint64")
    blocks[0] = [1, 2, 3]
    blocks.update(1, lambda known: [4])


def group(tree: Tree) -> None:
    tree.group("mid").create_group(tree.name).create_array("a", OURS, chunks=2)


def image(tree: Tree) -> None:
    cw.downsample_pyramid(cw.array(OURS), tree.place, levels=1, chunks=2).result()


def nothing(tree: Tree) -> None:
    """Nothing is at the place before."""


WRITERS: dict[str, tuple[Callable[[Tree], object], Callable[[Tree], object]]] = {
    "dataset": (nothing, partial(add, names="ab", mode="w-")),
    "dataset in mode a": (nothing, partial(add, names="ab", mode="a")),
    "datatree": (nothing, write_tree),
    "more variables": (old_dataset, partial(add, names=("c", "new"), mode="a")),
    "another variable": (old_dataset, partial(add, names="b", mode="a")),
    "region": (old_dataset, write_region),
    "from_dask": (
        nothing,
        lambda tree: from_dask(
            dask.array.from_array(OURS, chunks=2),
            {"driver": DRIVERS[tree.format], "kvstore": tree.place.kvstore()},
        ),
    ),
    "blocks": (nothing, write_blocks),
    "attributes": (group, lambda tree: tree.group(f"mid/{tree.name}").attrs.update({"q": 1})),
    "array": (
        nothing,
        lambda tree: cw.create_array(tree.place, OURS, chunks=2, format=tree.format),
    ),
    "edit": (image, lambda tree: cw.edit_image(tree.place, scale=[2, 3])),
    "pyramid": (nothing, image),
}
"""What is at the place before, and what is written."""

ADDED = ("dataset in mode a", "more variables", "another variable")
"""Writers that replace variables that are there when they begin."""

FILLED = ("from_dask", "array", "blocks")


def delete_around(tree: Tree) -> None:
    del tree.group("")["mid"]


def delete(tree: Tree) -> None:
    del tree.group("mid")[tree.name]


def array_around(tree: Tree) -> None:
    delete_around(tree)
    separator = {"metadata": {"dimension_separator": "/"}} if tree.format == "zarr2" else {}
    cw.create_array(tree.at("mid"), THEIRS, chunks=2, format=tree.format, **separator)


def array(tree: Tree) -> None:
    cw.create_array(tree.place, THEIRS, chunks=2, format=tree.format, overwrite=True)


def arrays(tree: Tree) -> None:
    group = cw.create_group(tree.place, format=tree.format, overwrite=True)
    for name in NAMES:
        group.create_array(name, THEIRS, chunks=2)


RIVALS = {
    "deletes": delete,
    "deletes around": delete_around,
    "array": array,
    "array around": array_around,
    "arrays": arrays,
}


def documents(store: MemoryStore, place: Location) -> set[str]:
    keys = (key[len(place.path) :] for key in store.list() if key.startswith(place.path))
    return {key for key in keys if key.rpartition("/")[2] in DOCUMENTS and not in_staging(key)}


def has_lost(place: Location) -> bool:
    """Return True if an array of others has not the values that they wrote."""
    node = find_documented(place)
    with contextlib.suppress(ChunkwiseError):  # a chunk of the writer's
        return node is None or node.kind != "array" or not np.array_equal(cw.read(place), THEIRS)
    return True


class Meeting(NamedTuple):
    """What is found after a writer and its rival have met."""

    tree: Tree
    old: set[str]  # documents at the place before
    whole: set[str]  # those after the writer alone
    is_added: bool  # the writer may replace what is there
    fills: bool  # it makes an array alone, and fills it
    error: Exception | None

    @property
    def found(self) -> set[str]:
        return documents(self.tree.store, self.tree.place)

    def after_deletion(self) -> str:
        new = self.whole - self.old
        if self.error is not None:
            return f"left {self.found}" if self.found else ""
        return "" if not self.found or new <= self.found else f"of {new} there is {self.found}"

    def after_array(self) -> str:
        if has_lost(self.tree.place):
            # A chunk may be written just after the look; the writer notices it in the end.
            return "" if self.fills and self.error is not None else "the other's array is lost"
        inside = {key for key in self.found if "/" in key}
        return f"inside the array: {inside}" if inside else ""

    def after_array_around(self) -> str:
        if has_lost(self.tree.at("mid")):
            return "" if self.fills and self.error is not None else "the other's array is lost"
        return f"inside the array: {self.found}" if self.found else ""

    def after_arrays(self) -> str:
        ours = {key.partition("/")[0] for key in self.whole if self.is_added and self.error is None}
        if lost := [name for name in NAMES if name not in ours and has_lost(self.tree.place.child(name))]:
            return f"the other's arrays are lost: {lost}"
        return ""


def meet(name: str, rival: str, format: str, kind: str, number: int) -> tuple[int, str, Exception | None]:
    """Let the rival act before a request of the writer; return the number of these, what is wrong, why."""
    old, write = WRITERS[name]
    alone, both = Tree(MemoryStore(), format), Tree(MemoryStore(), format)
    alone.fill(old)
    both.fill(old)
    before, plain = documents(both.store, both.place), STORES[kind](both.store, lambda: None, 0)
    counted: FailingStore = STORES[kind](alone.store, lambda: None, 0)
    write(alone._replace(store=counted))
    number = 1 + number % counted.n_calls
    other = Act(partial(RIVALS[rival], Tree(plain, format)))

    def begin() -> None:
        other.start()
        settle(other, plain)

    one = Act(partial(write, Tree(STORES[kind](both.store, begin, number), format)))
    one.start()
    one.join(60)
    if other.ident:
        other.join(60)
    assert not (one.is_alive() or other.is_alive())
    if not other.ident or other.error is not None:
        return counted.n_calls, "", one.error
    met = Meeting(both, before, documents(alone.store, alone.place), name in ADDED, name in FILLED, one.error)
    what = rival.replace(" ", "_") if rival.startswith("array") else "deletion"
    return counted.n_calls, getattr(met, f"after_{what}")(), one.error


CELLS = [
    cell
    for cell in product(WRITERS, RIVALS, FORMATS, ["directories", "at once"])
    if cell[0] != "blocks" or cell[2] == "n5"
]


def test_others_delete_or_replace_the_place_of_a_writer() -> None:
    some = draw()
    for cell in some.sample(CELLS, 20):
        for number in some.sample(range(1000), 3):
            print(*cell, number)
            _, wrong, error = meet(*cell, number)
            assert not wrong, (wrong, error)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rival", "format", "kind"), CELLS)
def test_others_delete_or_replace_the_place_at_any_moment(
    name: str, rival: str, format: str, kind: str
) -> None:
    number, n = 0, 1
    while number < n:
        n, wrong, error = meet(name, rival, format, kind, number)
        assert not wrong, (number, wrong, error)
        number += 1
