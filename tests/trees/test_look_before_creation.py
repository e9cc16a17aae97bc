"""One look at a place answers all questions before something is made; what happens after it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import dask.array
import numpy as np
import pytest
import xarray as xr
from examples import draw
from failing_store import FailingStore, contents, place_in
from rivals import Act, AtOnce, Fixed, Slow, settle

import chunkwise as cw
from chunkwise.cli.mv import _move_alone
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.delete_node import put_back
from chunkwise.core.kvstore.places.staging import in_staging
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.look import looking
from chunkwise.core.trees.node import DOCUMENTS, find_documented
from chunkwise.dask import from_dask
from chunkwise.errors import AlreadyExistsError
from chunkwise.xarray import write_dataset


class SlowStore(MemoryStore):
    """A store of which many requests are made at a time; before one of them another process acts."""

    def __init__(self) -> None:
        super().__init__()
        self.number, self.at, self.act = 0, -1, lambda: None

    traits = MemoryStore.traits._replace(request_concurrency=4)

    def few_children(self, prefix: str) -> Any:
        self._asked()
        return super().list_children(prefix)

    def read(self, key: str, **options: Any) -> Any:
        self._asked()
        return super().read(key, **options)

    def write(self, key: str, value: Any, **options: Any) -> Any:
        self._asked()
        return super().write(key, value, **options)

    def _asked(self) -> None:
        self.number += 1
        if self.number == self.at:
            self.act()


def array(store: Any, path: str, **options: Any) -> None:
    cw.create_array(locate(store).child(path), shape=(4,), dtype="uint8", **options)


def group(store: Any, path: str) -> None:
    cw.create_group(locate(store).child(path))


@pytest.mark.parametrize("rival", [array, group])
@pytest.mark.parametrize("place", ["top/mid", "top/mid/x"])
@pytest.mark.parametrize("make", [array, group])
def test_what_appears_after_the_look(
    make: Callable[[Any, str], None], place: str, rival: Callable[[Any, str], None]
) -> None:
    """Of two that can't both be there, one is made, at whatever moment the other process makes its own."""
    n = 0
    while True:
        store, answers = SlowStore(), {}
        group(store, "top")
        store.number = 0

        def act(store: Any = store, answers: dict[str, bool] = answers) -> None:
            answers["rival"] = done(rival, store, place)

        n += 1
        store.at, store.act = n, act
        answers["ours"] = done(make, store, "top/mid/x")
        if "rival" not in answers:  # it was all done before
            break
        found = {path: type(node).__name__ for path, node in cw.open_group(locate(store).child("top")).walk()}
        if place == "top/mid/x":
            assert answers["ours"] != answers["rival"]
            assert "mid/x" in found
        else:
            assert ("mid/x" in found) == answers["ours"] or (rival is array and answers["rival"])
            assert not (answers["ours"] and answers["rival"] and rival is array), found
    assert n > 4


FORMATS = ["zarr3", "zarr2", "n5"]
DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}
STORES: dict[str, Callable[..., FailingStore]] = {
    "directories": FailingStore,
    "at once": AtOnce,
    "pages": partial(FailingStore, plain=True),
    "slow pages": partial(Slow, plain=True),
}


class FixedPlace(Fixed):
    """A store in which the place of what is deleted can't be renamed."""

    fixed = ("/mid/c", "/mid/0")


class Tree(NamedTuple):
    """A tree with the group ``mid``, in which something is made, and what is copied or moved there."""

    store: FailingStore
    format: str
    collides: bool = True

    @property
    def name(self) -> str:
        """The name of what is made: if it `collides`, chunks of an array at ``mid`` are below it."""
        return "x" if not self.collides else "c" if self.format == "zarr3" else "0"

    @property
    def place(self) -> Location:
        return self.at(f"top/mid/{self.name}")

    def at(self, path: str) -> Location:
        suffix = ".n5" if self.format == "n5" else ""
        top, _, rest = path.partition("/")
        return place_in(self.store, f"{top}{suffix}/{rest}/" if rest else f"{top}{suffix}/")

    def group(self, name: str) -> cw.Group:
        return cw.open_group(self.at(name), "r+", format=self.format)

    def spec(self, path: str) -> dict[str, Any]:
        return {"driver": DRIVERS[self.format], "kvstore": self.at(path).kvstore()}

    def fill(self, *, old: bool) -> None:
        """Make the tree, with something at the place if there is to be `old` data."""
        top = cw.create_group(self.at("top"), format=self.format)
        for group in (top, cw.create_group(self.at("source"), format=self.format)):
            group.create_array("array", np.arange(4, dtype="u1"), dimension_names=["x"])
            group.create_group("tree").create_array("y", [1, 2])
            group.create_group("misfits").create_array("z", np.arange(998, 1002), chunks=2)
        top.create_group("mid")
        if old:
            top.create_array(f"mid/{self.name}", [7, 8, 9])


def opened(tree: Tree, path: str, **mode: bool) -> None:
    """Create an array by its spec."""
    cw.open(tree.spec(path), create=True, dtype="uint8", shape=[4], **mode).result()


def dataset(tree: Tree, mode: str) -> None:
    values = xr.Dataset({"a": ("t", [1, 2])}, {"t": [3, 4]})
    write_dataset(values, tree.place, mode=mode, format=tree.format)


def move_alone(tree: Tree) -> None:
    """Move a node out of its tree, as ``chunkwise mv`` does."""
    _move_alone(tree.at("source/tree"), tree.place)


MAKERS: dict[str, Callable[[Tree], object]] = {
    "array": lambda tree: tree.group("top").create_array(f"mid/{tree.name}", shape=(4,), dtype="uint8"),
    "filled array": lambda tree: cw.create_array(tree.place, [1, 2], format=tree.format),
    "group": lambda tree: tree.group("top").create_group(f"mid/{tree.name}"),
    "opened group": lambda tree: tree.group("top").require_group("mid").create_group(tree.name),
    "open": lambda tree: opened(tree, f"top/mid/{tree.name}"),
    "dataset": partial(dataset, mode="w-"),
    "move": lambda tree: tree.group("top").move("array", f"mid/{tree.name}"),
    "moved group": lambda tree: tree.group("top").move("tree", f"mid/{tree.name}"),
    "mv": move_alone,
    "copy": lambda tree: cw.copy(tree.at("source/array"), tree.place),
    "copy_tree": lambda tree: cw.copy_tree(tree.at("source/tree"), tree.place),
    "misfit copy": lambda tree: cw.copy(tree.at("source/misfits/z"), tree.place, dtype="uint8"),
    "misfit tree": lambda tree: cw.copy_tree(tree.at("source/misfits"), tree.place, dtype="uint8"),
    "Group.copy": lambda tree: tree.group("top").copy("tree", f"mid/{tree.name}"),
    "pyramid": lambda tree: cw.downsample_pyramid(
        cw.open(tree.spec("source/array")).result(), tree.place, levels=2
    ).result(),
    "from_dask": lambda tree: from_dask(dask.array.arange(4), tree.spec(f"top/mid/{tree.name}")),
}
"""Make something at the place."""

REPLACERS: dict[str, Callable[[Tree], object]] = {
    "array": lambda tree: cw.create_array(tree.place, [1, 2], format=tree.format, overwrite=True),
    "member": lambda tree: tree.group("top").create_array(f"mid/{tree.name}", [1, 2], overwrite=True),
    "group": lambda tree: tree.group("top").create_group(f"mid/{tree.name}", overwrite=True),
    "root group": lambda tree: cw.create_group(tree.place, format=tree.format, overwrite=True),
    "dataset": partial(dataset, mode="w"),
    "copy": lambda tree: cw.copy(tree.at("source/array"), tree.place, overwrite=True),
    "copy_tree": lambda tree: cw.copy_tree(tree.at("source/tree"), tree.place, overwrite=True),
    "from_dask": lambda tree: from_dask(
        dask.array.arange(4), tree.spec(f"top/mid/{tree.name}"), delete_existing=True
    ),
    "open": lambda tree: opened(tree, f"top/mid/{tree.name}", delete_existing=True),
}
"""Replace the array at the place."""

REMOVERS: dict[str, Callable[[Tree], object]] = {
    "deletion": lambda tree: tree.group("top").__delitem__(f"mid/{tree.name}"),
    "deletion but of a file": lambda tree: tree.group("top").__delitem__(f"mid/{tree.name}"),
    "moving": lambda tree: tree.group("top").move(f"mid/{tree.name}", "moved"),
}
"""Delete or move the array at the place."""

IN_PLACE = ("filled array", "from_dask")
"""Writers whose chunks would replace those of the other array, in stores without directories to move."""


VALUES = np.arange(1, 17, dtype="u1").reshape(4, 4)


def takes(tree: Tree, rival: str) -> None:
    """Put an array at ``mid``, one chunk of which has the key of a chunk at ``mid/0/0`` in v2 and N5."""
    separator = {"metadata": {"dimension_separator": "/"}} if tree.format == "zarr2" else {}
    if rival == "replaces":
        del tree.group("top")["mid"]
    if rival == "opens":
        spec = tree.spec("top/mid") | separator
        options = {"dtype": "uint8", "shape": [4, 4], "chunk_layout": cw.ChunkLayout(chunk_shape=[2, 2])}
        store = cw.open(spec, create=True, delete_existing=True, **options).result()
        store.write(VALUES).result()
    else:
        tree.group("top").create_array("mid", VALUES, chunks=(2, 2), **separator)


def lost(tree: Tree) -> str:
    """Return what is wrong with the values of the array at ``mid``."""
    found = cw.open(tree.spec("top/mid")).result().read().result()
    return "" if np.array_equal(found, VALUES) else f"the other array has lost values: {found.tolist()}"


def meet(name: str, rival: str, format: str, kind: str, at: int) -> str | None:
    """Let the rival act at a request of a writer; return what is wrong, None if there is no such request."""
    (act, old), collides = writer(name), name not in IN_PLACE
    store = FixedPlace if kind == "fixed place" else STORES[kind]
    base = MemoryStore()
    whole = Tree(store(base, lambda: None, 0), format, collides)
    whole.fill(old=old)
    if "but of a file" in name:
        base.write(whole.place.path + "notes.txt", b"not ours")
    if rival == "creates":
        del whole.group("top")["mid"]
    other = Act(partial(takes, whole, rival))

    def begin() -> None:
        other.start()
        settle(other, whole.store)

    before = outside(base)
    one = Act(partial(act, Tree(store(base, begin, at), format, collides)))
    whole.store.calls.clear()
    one.start()
    one.join(60)
    assert not one.is_alive()
    if not other.ident:
        return None
    other.join(60)
    assert not other.is_alive()
    if one.error is not None and before != outside(base):
        return f"changed {sorted({*before} ^ {*outside(base)})}: {one.error}"
    mid = find_documented(whole.at("top/mid"))
    if mid is None or mid.kind != "array":
        return "" if other.error is not None or None in (one.error, other.error) else "neither"
    inside = [
        key
        for key in base.list()
        if key.startswith(whole.place.path) and key.rpartition("/")[2] in DOCUMENTS and not in_staging(key)
    ]
    if other.error is None and (wrong := lost(whole)):
        return wrong
    if inside and one.error is None:
        return f"silent: {inside}"
    if inside:
        return f"left {inside}: {one.error}"
    return "gone" if rival == "creates" and one.error is None and not old else ""


def outside(store: MemoryStore) -> dict[str, bytes]:
    """Return what is not in the group ``mid``, where something is made."""
    return {key: value for key, value in contents(store).items() if "/mid" not in key and "/.mid" not in key}


CELLS = [
    *product(MAKERS, ["replaces", "creates", "opens"], FORMATS, STORES),
    *product([f"{name} over another" for name in REPLACERS], ["replaces", "opens"], FORMATS, STORES),
    *product([f"{name} over another" for name in REMOVERS], ["replaces", "opens"], FORMATS, STORES),
]


def writer(name: str) -> tuple[Callable[[Tree], object], bool]:
    """Return a writer, and whether it replaces old data."""
    bare = name.removesuffix(" over another")
    return (MAKERS[name], False) if bare == name else ((REPLACERS | REMOVERS)[bare], True)


@pytest.mark.filterwarnings("ignore:.*belong to no array or group:UserWarning")  # the rival's
def test_an_array_takes_the_place_of_the_group_around() -> None:
    """Nothing is inside an array in the end without an error, whenever another process puts one there."""
    some = draw()
    for name, rival, format, kind in some.sample(CELLS, 30):
        at = some.randint(1, 40)
        print(name, rival, format, kind, at)
        assert not meet(name, rival, format, kind, at)


@pytest.mark.filterwarnings("ignore:.*belong to no array or group:UserWarning")  # the rival's
@pytest.mark.parametrize("kind", ["directories", "at once", "fixed place"])
@pytest.mark.parametrize("name", REMOVERS)
def test_chunks_of_an_array_put_above_are_not_deleted_or_moved(name: str, kind: str) -> None:
    for format in FORMATS:
        for at in range(3, 10):
            assert not meet(f"{name} over another", "opens", format, kind, at), (format, at)


def made_inside(maker: str, format: str, kind: str, at: int) -> str | None:
    """Make something in a group at a request of the array that replaces it; return as `meet`."""
    base, store = MemoryStore(), STORES[kind]
    whole = Tree(store(base, lambda: None, 0), format, maker not in IN_PLACE)
    whole.fill(old=False)
    other = Act(partial(MAKERS[maker], whole))

    def begin() -> None:
        other.start()
        settle(other, whole.store)

    one = Act(partial(opened, Tree(store(base, begin, at), format), "top/mid", delete_existing=True))
    whole.store.calls.clear()
    one.start()
    one.join(60)
    if not other.ident:
        return None
    other.join(60)
    assert not (one.is_alive() or other.is_alive())
    mid, inside = find_documented(whole.at("top/mid")), find_documented(whole.place)
    both = mid is not None and mid.kind == "array" and inside is not None
    return f"{inside} is in an array: {one.error}, {other.error}" if both else ""


@pytest.mark.filterwarnings("ignore:.*belong to no array or group:UserWarning")
@pytest.mark.parametrize("kind", ["pages", "slow pages"])
@pytest.mark.parametrize("maker", ["array", "open", "copy"])
def test_something_is_made_in_a_group_that_an_array_replaces(maker: str, kind: str) -> None:
    for format in FORMATS:
        for at in range(1, 500):
            wrong = made_inside(maker, format, kind, at)
            if wrong is None:
                assert at > 4
                break
            assert not wrong, (format, at)


def test_what_was_taken_away_comes_back_beside_what_came_since() -> None:
    store = MemoryStore()
    for key, value in {"s/0": b"old", "s/1": b"old", "a/1": b"new", "a/2": b"new"}.items():
        store.write(key, value)
    put_back(store, "s/", "a/")
    assert contents(store) == {"a/0": b"old", "a/1": b"new", "a/2": b"new"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*belong to no array or group:UserWarning")  # the rival's
@pytest.mark.parametrize(("name", "rival", "format", "kind"), CELLS)
def test_an_array_takes_the_place_at_any_moment(name: str, rival: str, format: str, kind: str) -> None:
    for at in range(1, 500):
        wrong = meet(name, rival, format, kind, at)
        if wrong is None:
            assert at > 4
            return
        assert not wrong, at
    pytest.fail("it never came to an end")


def done(make: Callable[[Any, str], None], store: Any, path: str) -> bool:
    try:
        make(store, path)
    except AlreadyExistsError:
        return False
    return True


def test_a_write_ends_the_look() -> None:
    store = SlowStore()
    group(store, "top")
    with looking(locate(store).child("top/x")) as seen:
        store.write("top/x/zarr.json", b"{}")
        assert seen.store.read("top/x/zarr.json").value is None
        seen.store.write("top/y/zarr.json", b"{}")
        assert seen.store.read("top/x/zarr.json").value == b"{}"
    assert seen.store.read("top/y/zarr.json").value == b"{}"
