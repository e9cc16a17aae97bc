"""Trees whose copy ends at any of its requests: they are no groups, and another run goes on with them."""

from __future__ import annotations

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fault_store import Fault, FaultStore
from tests.trace_store import TraceStore

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AlreadyExistsError, DataCorruptionError, FailedPreconditionError, StorageError

PLANES = np.random.default_rng(0).integers(0, 1 << 16, (12, 20, 18), "u2")
MEMORY = 10_000  # so little that planes are copied one by one


def make(store: Any = None, **options: Any) -> KvStoreDriver:
    kv: KvStoreDriver = MemoryStore() if store is None else store
    tree = cw.create_group(kv, format="zarr3", attributes={"title": "x"}, **options)
    tree.create_array("planes", PLANES, chunks=(1, 20, 18), codec="zstd:1")
    for i in range(3):
        tree.create_array(f"g/h{i % 2}/a{i}", np.arange(10) + i, attributes={"i": i}, chunks=(4,))
    tree.create_array("g/scalar", np.float32(3))
    tree.create_array("g/empty", shape=(0, 3), dtype="i2")
    tree.create_group("e", attributes={"e": 1})
    tree.create_link("g/link", "/planes")
    return kv


def copied(source: Any, target: Any, **options: Any) -> cw.CopyReport:
    """Copy with one thread, so that requests come in one order."""
    with ThreadPoolExecutor(1) as threads:
        return cw.copy_tree(source, target, executor=threads, **{"memory": MEMORY, **options})


def keys(kv: KvStoreDriver) -> list[str]:
    return list(kv.list("", ""))


@pytest.mark.parametrize(
    ("format", "step"),
    [
        ("zarr3", 31),
        ("n5", 31),
        *(pytest.param(f, 11, marks=pytest.mark.slow) for f in ("zarr3", "zarr2", "n5")),
    ],
)
def test_the_driver_ends_at_any_request(format: str, step: int) -> None:
    source = make()
    whole = TraceStore(MemoryStore())
    copied(source, whole, format=format, keep_fingerprint=True, verify=True)
    assert not [key for key in keys(whole) if ".chunkwise" in key]
    before_that, n_rounds, n_unfinished = len(whole.requests), 0, 0
    for n in range({"zarr3": 0, "zarr2": 1, "n5": 2}[format], before_that, step):
        base = MemoryStore()
        dying = FaultStore(base, Fault(skip=n, times=None))
        try:
            copied(source, dying, format=format, keep_fingerprint=True, verify=True)
        except StorageError:
            pass
        else:  # a slow run writes its journal more often
            assert n > before_that * 0.9
        gc.collect()  # or whoever began it might be at work still
        n_rounds += 1
        begun = JOURNAL in keys(base)
        n_unfinished += begun
        if begun and not {"zarr.json", ".zgroup", "attributes.json"} & set(keys(base)):
            with pytest.raises(ValueError, match="unfinished copy"):
                cw.open_group(base)
            with pytest.raises(AlreadyExistsError, match="begun and not finished"):
                copied(source, base, format=format)
        report = copied(source, base, format=format, keep_fingerprint=True, resume=True)
        assert (report.n_groups, report.n_arrays, report.n_links) == (5, 6, 1)
        assert not list(cw.diff(source, base)), n
        assert sorted(keys(base)) == sorted(keys(whole)), n
        assert [found.fingerprint for found in cw.verify(base) if found.kind == "array"] == [True] * 6, n
    assert n_unfinished > n_rounds // 2


def test_what_is_done_is_not_done_again() -> None:
    source, target = TraceStore(make()), MemoryStore()
    done: list[str] = []

    def stop(path: str, nbytes: int) -> None:
        done.append(path)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(source, target, progress=stop)
    state = json.loads(bytes(target.read(JOURNAL).value or b""))
    n_done = sum(stop - start for start, stop in state["done"][2])
    assert state["owner"] is None and 1 < n_done < (n_tasks := state["tasks"][2])
    source.requests.clear()
    copied(source, target, resume=True)
    planes = {r.key for r in source.requests if r.key.startswith("planes/c")}
    assert len(planes) == len(PLANES) // n_tasks * (n_tasks - n_done)
    assert not list(cw.diff(source.base, target))


@pytest.mark.parametrize("change", ["attribute", "array", "value type", "options", "memory"])
def test_another_tree_or_other_options_are_refused(change: str) -> None:
    source, target = make(), MemoryStore()
    options: dict[str, Any] = {}

    def stop(path: str, nbytes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(source, target, progress=stop)
    tree = cw.open_group(source, "r+")
    if change == "attribute":
        tree["g"].attrs["new"] = 1
    elif change == "array":
        del tree["g/scalar"]
    elif change == "value type":
        tree.create_array("planes", PLANES.astype("u4"), chunks=(1, 20, 18), overwrite=True)
    elif change == "options":
        options["codec"] = "gzip:1"
    else:
        options["memory"] = MEMORY + 1
    with pytest.raises(FailedPreconditionError, match="memory" if change == "memory" else "source metadata"):
        copied(source, target, resume=True, **options)
    if change != "memory":
        copied(source, target, overwrite=True, **options)
        assert not list(cw.diff(source, target))


def test_a_source_that_changes_while_it_is_copied() -> None:
    source, target = make(), MemoryStore()
    array = cw.open_group(source, "r+")["planes"]

    def shrink(path: str, nbytes: int) -> None:
        if path == "planes" and array.shape[0] == 12:
            array.resize(exclusive_max=(11, 20, 18)).result()
            array.resize(exclusive_max=(13, 20, 18)).result()

    with pytest.raises(FailedPreconditionError, match="Error copying planes: the source has changed"):
        copied(source, target, progress=shrink)
    with pytest.raises(FailedPreconditionError, match="source metadata is another"):
        copied(source, target, resume=True)


def test_elements_that_change_are_found_by_verify() -> None:
    source, target = make(), MemoryStore()
    planes = cw.open_group(source, "r+")["planes"]

    seen: list[int] = []

    def change(path: str, nbytes: int) -> None:
        seen.append(nbytes)
        planes[3, 4, 5].write(len(seen)).result()

    with pytest.raises(DataCorruptionError, match="Error copying planes: the copy differs"):
        copied(source, target, progress=change, verify=True)
    assert json.loads(bytes(target.read(JOURNAL).value or b""))["done"][2] == [], "nothing of it is trusted"
    copied(source, target, resume=True, verify=True)
    assert not list(cw.diff(source, target))


@pytest.mark.each_once
@pytest.mark.parametrize("path", ["planes", "g/h1/a1"])
@pytest.mark.parametrize("finished", [True, False])
def test_what_was_copied_before_is_verified_too(tmp_path: Path, path: str, finished: bool) -> None:
    source, target = make(), tmp_path / "b.zarr"
    seen: list[str] = []

    def stop(path: str, nbytes: int) -> None:
        seen.append(path)
        if not finished and len(set(seen)) == 6:  # what is left are the groups
            raise KeyboardInterrupt

    try:
        copied(source, target, progress=stop)
    except KeyboardInterrupt:
        assert not finished and not (target / "zarr.json").exists()
    array = cw.open(str(target / path)).result()
    array[...].write(7).result()
    with pytest.raises(DataCorruptionError, match=f"Error verifying {path}: the copy differs"):
        copied(source, target, resume=True, verify=True)
    copied(source, target, resume=True)
    assert [each.name for each in cw.diff(source, target)] == [path], "nothing was copied again"


def test_a_mistake_deletes_nothing() -> None:
    source, target = make(), MemoryStore()
    copied(source, target)
    before = keys(target)
    for mistake in ({"codec": "nope"}, {"memory": 10}, {"cast": "squeeze", "dtype": "u1"}, {"colour": "red"}):
        with pytest.raises((TypeError, ValueError), match=r"nope|memory|squeeze|colour"):
            copied(source, target, overwrite=True, **mistake)
        assert keys(target) == before
    copied(source, target, overwrite=True, codec="gzip:1")
    assert not list(cw.diff(source, target))


def test_chunks_that_are_bad_are_named_with_their_array() -> None:
    source, target = make(), MemoryStore()
    source.write("g/h1/a1/c/1", b"bad")
    with pytest.raises(ValueError, match="Error copying g/h1/a1"):
        copied(source, target)
    source.write("planes/c/7/0/0", b"bad")
    with pytest.raises(ValueError, match="Error copying planes"):
        copied(source, target, overwrite=True)


def test_values_that_do_not_fit_leave_nothing_behind() -> None:
    source, target = make(), MemoryStore()
    with pytest.raises(ValueError, match=r"Error copying .*fit"):
        copied(source, target, dtype="u1")
    assert keys(target) == []
    report = copied(source, target, dtype="u1", cast="clamp")
    assert any(path == "planes" and "nearest" in note for path, note in report.notes)
    group = cw.create_group(MemoryStore(), format="zarr3")
    group.create_array("kept", np.arange(3))
    with pytest.raises(ValueError, match="fit"):
        group.copy(cw.open_group(source), "/", options={"dtype": "u1"}, memory=MEMORY)
    assert list(group) == ["kept"]
    group.copy(cw.open_group(source), "/", memory=MEMORY)
    assert sorted(group) == ["e", "g", "kept", "planes"] and group.attrs == {"title": "x"}
