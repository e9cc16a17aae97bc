"""Others delete, move or replace what is around a store, at any moment of who writes it.

It is there as a whole, or nothing of it is, or there is an error; what others have made is as they made it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples import draw
from failing_store import place_in
from rivals import STORES, Act, settle

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import in_staging
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import DOCUMENTS, find_documented, find_node
from chunkwise.hdmf import ZarrIO, convert, open_store

FORMATS = ["zarr3", "zarr2", "n5"]
VALUES = np.arange(1, 17, dtype="u1").reshape(4, 4)
pytestmark = pytest.mark.filterwarnings("ignore:.*belong to no array or group:UserWarning")  # the rival's


def at(store: Any, path: str, format: str) -> Location:
    """Return a place in the tree ``top``; chunks of an array at ``mid`` may be below ``mid/x``."""
    top, _, rest = path.partition("/")
    rest = rest.replace("mid/x", "mid/c" if format == "zarr3" else "mid/0")
    suffix = ".n5" if format == "n5" else ""
    return place_in(store, f"{top}{suffix}/{rest}/" if rest else f"{top}{suffix}/")


def write(store: Any, format: str, mode: str, path: str = "top/mid/x", name: str = "a") -> None:
    words = DatasetBuilder("words", ["a", "b"])
    group = GroupBuilder(f"g{name}", datasets=[words, DatasetBuilder("v", np.arange(1, 5))])
    root = GroupBuilder("root", groups=[group], attributes={"data_type": "File"})
    with ZarrIO(at(store, path, format), mode, format=format) as io:
        io.write_builder(root)


def append(store: Any, format: str) -> None:
    with ZarrIO(at(store, "top/mid/x", format), "r+") as io:
        io.write_dataset("/", DatasetBuilder("later", np.arange(1, 4)))
        io.write_group("/", GroupBuilder("gl", datasets=[DatasetBuilder("w", ["x", "y"])]))


def add_words(store: Any, format: str) -> None:
    open_store(at(store, "top/mid/x", format)).dataset("/ga/words").append(np.array(["c"], object))


WRITERS: dict[str, Callable[[Any, str], object]] = {
    "new": lambda store, format: write(store, format, "w-"),
    "new or more": lambda store, format: write(store, format, "a"),
    "conversion": lambda store, format: convert(
        at(store, "source", format), at(store, "top/mid/x", format), format=format
    ),
    "another": lambda store, format: write(store, format, "w", name="b"),
    "more": append,
    "more words": add_words,
}
OLD = ("another", "more", "more words")
"""Writers to a store that is there."""


def delete_around(store: Any, format: str) -> None:
    del cw.open_group(at(store, "top", format), "r+")["mid"]


def move_around(store: Any, format: str) -> None:
    cw.open_group(at(store, "top", format), "r+").move("mid", "moved")


def array_around(store: Any, format: str) -> None:
    delete_around(store, format)
    separator = {"metadata": {"dimension_separator": "/"}} if format == "zarr2" else {}
    cw.create_array(at(store, "top/mid", format), VALUES, chunks=(2, 2), format=format, **separator)


def array_there(store: Any, format: str) -> None:
    place = at(store, "top/mid/x", format)
    cw.create_array(place, VALUES, chunks=(2, 2), format=format, overwrite=True)


RIVALS = {"deletes": delete_around, "moves": move_around, "array around": array_around, "array": array_there}


def filled(name: str, format: str) -> MemoryStore:
    store = MemoryStore()
    cw.create_group(at(store, "top", format), format=format).create_group("mid")
    write(store, format, "w-", "source")
    if name in OLD:
        write(store, format, "w-")
    return store


def documents(store: MemoryStore, place: Location) -> set[str]:
    keys = (key for key in store.list() if key.startswith(place.path) and not in_staging(key))
    return {key[len(place.path) :] for key in keys if key.rpartition("/")[2] in DOCUMENTS}


def meet(name: str, rival: str, format: str, kind: str, number: int) -> bool:
    """Let the rival act before a request of the writer; return False if there is no such request."""
    alone, base = filled(name, format), filled(name, format)
    place, old = at(base, "top/mid/x", format), documents(base, at(base, "top/mid/x", format))
    WRITERS[name](STORES[kind](alone, lambda: None, 0), format)
    whole = documents(alone, place)
    plain = STORES[kind](base, lambda: None, 0)
    other = Act(partial(RIVALS[rival], plain, format))

    def begin() -> None:
        other.start()
        settle(other, plain)

    one = Act(partial(WRITERS[name], STORES[kind](base, begin, number), format))
    one.start()
    one.join(60)
    assert not one.is_alive()
    if not other.ident:
        return False
    other.join(60)
    assert not other.is_alive()
    found, what = documents(base, place), (one.error, other.error)
    if rival.startswith("array") and other.error is None:
        array = at(base, "top/mid" if "around" in rival else "top/mid/x", format)
        node = find_documented(array)
        if node is not None and node.kind == "array":
            assert np.array_equal(cw.read(array), VALUES), what
            assert "around" in rival or found <= {"zarr.json", ".zarray", ".zattrs", "attributes.json"}, what
            assert "around" not in rival or not found, (found, what)
            return True
        assert rival == "array" and one.error is None, what  # which has replaced it
    if one.error is None:
        assert found in (set(), whole), (found ^ whole, what)
        assert found or rival != "array", what
    else:
        assert found in (set(), old), (found, what)
    if rival == "moves" and other.error is None:
        moved = at(base, "top/moved/" + place.path.split("/")[-2], format)
        node = find_node(moved)
        kept = documents(base, moved)
        assert kept or found or name not in OLD, what
        unfinished = node is not None and node.error  # it says so when it is opened
        assert unfinished or kept in (set(), old, whole) or (one.error is not None and old <= kept), what
    return True


CELLS = [
    cell
    for cell in product(WRITERS, RIVALS, FORMATS, sorted(STORES))
    if cell[0] != "more words" or cell[2] == "n5"
]


def test_others_change_what_is_around() -> None:
    some = draw()
    for cell in some.sample(CELLS, 25):
        number = some.randint(1, 60)
        print(*cell, number)
        meet(*cell, number)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rival", "format", "kind"), CELLS)
def test_others_change_what_is_around_at_any_moment(name: str, rival: str, format: str, kind: str) -> None:
    for number in range(1, 1000):
        if not meet(name, rival, format, kind, number):
            assert number > 4
            return
    pytest.fail("it never came to an end")
