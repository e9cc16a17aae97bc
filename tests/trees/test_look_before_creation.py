"""One look at a place answers all questions before something is made; what happens after it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.look import looking
from chunkwise.core.trees.node import DOCUMENTS
from chunkwise.errors import AlreadyExistsError, ChunkwiseError


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


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("is_slow", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", ["array", "group", "opened group", "open"])
@pytest.mark.parametrize("rival", ["replaces", "creates", "opens"])
def test_an_array_takes_the_place_of_the_group_around(
    rival: str, make: str, is_slow: bool, format: str
) -> None:
    """Nothing is inside an array in the end, at whatever moment another process puts one there."""
    n, made = 0, set()
    while True:
        store = SlowStore() if is_slow else FastStore()
        top = cw.create_group(locate(store).child(top_name(format)), format=format)
        if rival != "creates":
            top.create_group("mid")
        store.number, answers = 0, {}

        def act(top: Any = top, answers: dict[str, bool] = answers, store: Any = store) -> None:
            answers["rival"] = attempt(lambda: takes(rival, top, store, format))

        n += 1
        store.at, store.act = n, act
        answers["ours"] = attempt(lambda top=top, store=store: makes(make, top, store, format))
        if "rival" not in answers:
            break
        found = {
            path.strip("/"): type(node).__name__
            for path, node in cw.open_group(locate(store).child(top_name(format))).walk()
        }
        keys = [key for key in store.list() if "mid/x" in key]
        is_array = found.get("mid") == "TensorStore"
        assert not (is_array and any(key.rpartition("/")[2] in DOCUMENTS for key in keys)), (n, keys, answers)
        assert not (is_array and answers["ours"] and rival == "creates"), (n, found, answers)
        made.add((answers["ours"], answers["rival"]))
    assert n > 3 and any(ours for ours, _ in made) | any(other for _, other in made)


def top_name(format: str) -> str:
    return "top.n5" if format == "n5" else "top"


class FastStore(SlowStore):
    """The same, of which one request is made at a time."""

    traits = MemoryStore.traits

    def list_children(self, prefix: str) -> Any:
        self._asked()
        return super().list_children(prefix)


def takes(rival: str, top: Any, store: Any, format: str) -> None:
    """Put an array at ``mid``."""
    if rival == "replaces":
        del top["mid"]
    if rival == "opens":
        opens(store, format, "mid", delete_existing=True)
    else:
        top.create_array("mid", shape=(4,), dtype="uint8")


def opens(store: Any, format: str, path: str, **mode: bool) -> None:
    driver = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}[format]
    spec = {"driver": driver, "kvstore": locate(store).child(top_name(format)).child(path).kvstore()}
    cw.open(spec, create=True, dtype="uint8", shape=[4], **mode).result()


def makes(make: str, top: Any, store: Any, format: str) -> None:
    """Make something at ``mid/x``."""
    if make == "array":
        top.create_array("mid/x", shape=(4,), dtype="uint8")
    elif make == "group":
        top.create_group("mid/x")
    elif make == "open":
        opens(store, format, "mid/x")
    else:
        top.require_group("mid").create_group("x")


def attempt(act: Callable[[], object]) -> bool:
    try:
        act()
    except ChunkwiseError:
        return False
    return True


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
