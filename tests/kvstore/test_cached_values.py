"""A store with cached values answers as its base does, whatever was read and written before."""

from __future__ import annotations

import time
from typing import Any

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.caches import ENTRY_OVERHEAD, ValueCache
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import OutOfRangeError, StorageError

KEYS = ("a", "ab", "b", "c")
VALUES = (b"", b"one", b"two" * 50, b"too large" * 100)
LIMIT = 2 * ENTRY_OVERHEAD + 400
KEY = st.sampled_from(KEYS)
PART = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted)
STEPS = st.one_of(
    st.tuples(st.just("read"), KEY),
    st.tuples(st.just("reader"), KEY),
    st.tuples(st.just("part"), KEY, PART),
    st.tuples(st.just("part of reader"), KEY, PART),
    st.tuples(st.just("ranges"), KEY, PART),
    st.tuples(st.sampled_from(["write", "writer", "conditional write"]), KEY, st.sampled_from(VALUES)),
    st.tuples(st.just("delete"), KEY),
    st.tuples(st.sampled_from(["delete range", "delete where"]), KEY, KEY),
    st.tuples(st.just("fail"), KEY, st.sampled_from(VALUES)),
)


class Failing(MemoryStore):
    """A store whose writes fail after they are done, if `fails` is true."""

    fails = False

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        generation = super().write(key, value, if_equal=if_equal)
        if self.fails:
            raise StorageError("the answer is lost")
        return generation


def _part(value: bytes | None, start: int, stop: int) -> Any:
    if value is not None and stop > len(value):
        return OutOfRangeError
    return None if value is None else value[start:stop]


def _asked(ask: Any) -> Any:
    try:
        found = ask()
    except OutOfRangeError:
        return OutOfRangeError
    return None if found is None else bytes(found)


@settings(max_examples=examples(900), deadline=None)
@given(st.lists(STEPS, min_size=6, max_size=25))
def test_any_reads_and_writes(steps: list[Any]) -> None:
    cache, base = ValueCache(LIMIT), Failing()
    store = CacheStore(base, cache, lambda: time.time() - 60)
    reader, open_writer = store.open_reader(), traits_of(store).open_writer
    model: dict[str, bytes] = {}
    for what, key, *rest in steps:
        value = model.get(key)
        if what == "read":
            assert _asked(lambda key=key: store.read(key).value) == value
        elif what == "reader":
            assert _asked(lambda key=key: reader(key)) == value
        elif what in ("part", "part of reader", "ranges"):
            start, stop = rest[0]
            asks = {
                "part": lambda key=key, start=start, stop=stop: (
                    store.read(key, byte_range=(start, stop)).value
                ),
                "part of reader": lambda key=key, start=start, stop=stop: reader(key, start, stop),
                "ranges": lambda key=key, start=start, stop=stop: (
                    None if (found := store.read_ranges(key, [start], [stop])) is None else found[0]
                ),
            }
            assert _asked(asks[what]) == _part(value, start, stop)
        elif what == "write":
            store.write(key, rest[0])
            model[key] = rest[0]
        elif what == "conditional write":
            generation = store.read(key).generation
            assert store.write(key, rest[0], if_equal=generation) is not None
            model[key] = rest[0]
            assert store.write(key, b"lost", if_equal=generation) is None
        elif what == "writer" and open_writer is not None:
            writer = open_writer()
            writer.write(key, rest[0])
            writer.flush()
            model[key] = rest[0]
        elif what == "delete":
            store.delete(key)
            model.pop(key, None)
        elif what in ("delete range", "delete where"):
            start, stop = sorted((key, rest[0]))
            if start < stop:
                wanted = (lambda key: True) if what == "delete range" else (lambda key: key != "ab")
                if what == "delete range":
                    store.delete_range(start, stop)
                else:
                    store.delete_where(start, stop, wanted)
                model = {k: v for k, v in model.items() if not (start <= k < stop and wanted(k))}
        elif what == "fail":
            base.fails = True
            with pytest.raises(StorageError):
                store.write(key, rest[0])
            base.fails, model[key] = False, rest[0]
        assert cache.nbytes <= LIMIT
    for key in KEYS:
        assert _asked(lambda key=key: reader(key)) == model.get(key)
