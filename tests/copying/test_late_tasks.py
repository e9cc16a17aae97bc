"""Tasks that come late, of all kinds of work: after each stage, and when what was made has been changed."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.kvstore.adapter.guarded import GuardedStore, Written
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION
from chunkwise.errors import AbortedError, FailedPreconditionError
from chunkwise.testing.executor_faults import Kept

VALUES = np.random.default_rng(0).integers(1, 1 << 16, (12, 20, 18), "u2")


def _source(place: Path) -> Path:
    group = cw.create_group(place / "a.zarr")
    group.create_array("planes", VALUES, chunks=(1, 20, 18))
    group.create_array("small", VALUES[0], chunks=(20, 7))
    sparse = group.create_array("sparse", shape=(12, 20, 18), dtype="u2", chunks=(1, 20, 18))
    sparse[7:9] = 5
    return place / "a.zarr"


WORK: dict[str, Any] = {
    "one pass": lambda a, b, **how: cw.copy(a / "planes", b, chunks=(3, 10, 18), memory=10_000, **how),
    "two passes": lambda a, b, **how: cw.copy(a / "planes", b, chunks=(12, 4, 4), memory=10_000, **how),
    "much is missing": lambda a, b, **how: cw.copy(a / "sparse", b, chunks=(12, 4, 4), memory=10_000, **how),
    "verified": lambda a, b, **how: cw.copy(
        a / "planes", b, chunks=(12, 4, 4), memory=10_000, verify=True, **how
    ),
    "a tree": lambda a, b, **how: cw.copy_tree(a, b, memory=10_000, verify=True, **how),
    "another format": lambda a, b, **how: cw.copy_tree(a, b, memory=10_000, format="n5", **how),
    "a pyramid": lambda a, b, **how: cw.downsample_pyramid(
        a / "planes", b, levels=2, axes="zyx", name="image", memory=15_000, **how
    ).result(),
}


def _arrays(place: Path) -> list[cw.TensorStore]:
    try:
        return [node for _, node in cw.open_group(place, "r+").walk() if isinstance(node, cw.TensorStore)]
    except ValueError:
        return [cw.open(str(place)).result()]


@pytest.mark.parametrize("overwrite", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", WORK)
def test_tasks_that_are_done_again(kind: str, tmp_path: Path, overwrite: bool) -> None:
    source, target, wanted = _source(tmp_path), tmp_path / "b", tmp_path / "c"
    WORK[kind](source, wanted, sync=False)
    if overwrite:
        WORK[kind](source, target, sync=False)
    with ThreadPoolExecutor(2) as executor:
        kept = Kept(executor)
        WORK[kind](source, target, executor=kept, overwrite=overwrite, sync=False)
        assert not list(cw.diff(target, wanted, layout=True))
        arrays = _arrays(target)
        for array in arrays:
            array[:3] = 1
            array[3:] = array.fill_value if array.fill_value is not None else 0
        for order in (1, -1):
            kept.again(order)
    for array in arrays:
        values = array.read().result()
        assert (values[:3] == 1).all() and not values[3:].any()
    assert not [path for path in tmp_path.rglob(".*") if "chunkwise" in path.name and path.is_file()]


def test_tasks_of_a_copy_that_is_gone(tmp_path: Path) -> None:
    source, target = _source(tmp_path), tmp_path / "b.zarr"
    with ThreadPoolExecutor(2) as executor:
        kept = Kept(executor)
        WORK["two passes"](source, target, executor=kept, sync=False)
        for path in sorted(target.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        kept.again()
    assert not [path for path in target.rglob("*") if path.is_file()]


class Nothing(Executor):
    """Loses what the function returns."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        fn(*args)
        future.set_result(None)
        return future


@pytest.mark.parametrize("kind", WORK)
def test_an_executor_that_loses_results_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(FailedPreconditionError, match=r"the executor gave None for tasks \d+ to \d+ of"):
        WORK[kind](_source(tmp_path), tmp_path / "b", executor=Nothing())


def test_a_guarded_store() -> None:
    base = MemoryStore()
    is_open, noted = [True], list[Written]()

    def check() -> None:
        if not is_open[0]:
            raise AbortedError("late")

    store = GuardedStore(base, check, noted.append)
    store.write("new", b"1")
    assert [each.key for each in noted] == ["new"]
    store.write("new", b"2")  # by another try of the same work
    assert bytes(base.read("new").value or b"") == b"2"
    noted[0].undo()  # it is another by now
    assert base.read("new").value is not None
    assert store.write("new", b"3", if_equal=MISSING_GENERATION) is None
    generation = base.read("new").generation
    assert store.write("new", b"3", if_equal=generation) is not None
    is_open[0] = False
    for change in (
        lambda: store.write("new", b"4"),
        lambda: store.write("new", b"4", if_equal=base.read("new").generation),
        lambda: store.delete("new"),
    ):
        with pytest.raises(AbortedError, match="late"):
            change()
    assert bytes(base.read("new").value or b"") == b"3"
    assert store.delete("missing") == MISSING_GENERATION
    store.write("late", b"5")
    noted[-1].undo()
    assert base.read("late").value is None


def test_a_change_between_the_look_and_the_write_is_not_lost() -> None:
    base = MemoryStore()
    base.write("a", b"of the copy")
    changed = threading.Event()

    def check() -> None:
        if changed.is_set():
            raise AbortedError("late")
        base.write("a", b"of the user")  # the copy has ended, just after the look
        changed.set()

    with pytest.raises(AbortedError):
        GuardedStore(base, check, lambda _: None).write("a", b"of a late task")
    assert bytes(base.read("a").value or b"") == b"of the user"
