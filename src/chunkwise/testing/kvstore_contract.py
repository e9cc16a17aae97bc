"""The contract of kvstores, as a suite of tests to inherit from.

Examples
--------
In a test module of the store::

    class TestMyStore(KvStoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(tmp_path)
"""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from chunkwise.core.kvstore.protocol import RangeReadable, ValueOpenable, missing_members
from chunkwise.errors import InvalidArgumentError, OutOfRangeError, PermissionDeniedError
from chunkwise.extension import ByteRange, Children, KvStoreDriver, StoreTraits
from chunkwise.extension.inside import MISSING_GENERATION, offers, traits_of

__all__ = ["KvStoreContract"]


class RangeContract:
    """Tests of ranges; a subclass has a fixture ``store`` that gives an empty store."""

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (0, None, b"hello"),
            (1, 3, b"el"),
            (2, None, b"llo"),
            (0, 2, b"he"),
            (-2, None, b"lo"),
            (-5, None, b"hello"),
            (5, None, b""),
            (5, 5, b""),
            (0, 0, b""),
            (0, 5, b"hello"),
        ],
    )
    def test_ranges(self, store: KvStoreDriver, start: int, stop: int | None, expected: bytes) -> None:
        """A part of a value is what slicing gives."""
        store.write("k", b"hello")
        got = store.open_reader()("k", start, stop)
        assert got is not None and bytes(got) == expected
        stamped = store.read("k", byte_range=ByteRange(start, stop))
        assert stamped.value is not None and bytes(stamped.value) == expected
        assert stamped.generation == store.read("k").generation
        assert store.open_reader()("missing", start, stop) is None
        assert store.read("missing", byte_range=ByteRange(start, stop)).generation == MISSING_GENERATION

    @pytest.mark.parametrize(
        ("start", "stop", "text"),
        [
            (0, 10, "[0, 10)"),
            (6, None, "[6, ?)"),
            (-10, None, "[-10, ?)"),
            (3, 2**60, f"[3, {2**60})"),
            (2**63, 2**63 + 4, f"[{2**63}, {2**63 + 4})"),
        ],
    )
    def test_ranges_outside(self, store: KvStoreDriver, start: int, stop: int | None, text: str) -> None:
        """A range that goes beyond the value is an error that tells both."""
        store.write("k", b"hello")
        for read in (
            lambda: store.open_reader()("k", start, stop),
            lambda: store.read("k", byte_range=ByteRange(start, stop)),
        ):
            with pytest.raises(OutOfRangeError) as e:
                read()
            assert text in str(e.value) and "size 5" in str(e.value)

    @pytest.mark.parametrize(("start", "stop"), [(3, 1), (-3, 4)])
    def test_ranges_that_are_none(self, store: KvStoreDriver, start: int, stop: int) -> None:
        """A range that ends before it begins, or counts from the end and has a stop, is an error."""
        store.write("k", b"hello")
        with pytest.raises(InvalidArgumentError, match="range"):
            store.open_reader()("k", start, stop)

    def test_several_ranges(self, store: KvStoreDriver) -> None:
        """Adjacent, distant, overlapping, unordered and empty ranges are each what slicing gives."""
        value = bytes(i % 256 for i in range(100_000))
        store.write("k", value)
        if not offers(store, RangeReadable):
            pytest.skip(f"{type(store).__name__} has no read_ranges, which is optional")
        starts = [0, 10, 10, 20_000, 20_003, 30_000, 29_990, 5, 100_000, *range(40_000, 90_000, 50)]
        stops = [10, 10, 30, 20_002, 20_010, 30_010, 30_005, 6, 100_000]
        stops += [start + 37 for start in starts[len(stops) :]]
        got = store.read_ranges("k", starts, stops)
        assert got is not None
        assert [bytes(part) for part in got] == [value[a:b] for a, b in zip(starts, stops, strict=True)]
        assert store.read_ranges("k", [], []) == []
        assert store.read_ranges("missing", [0], [1]) is None
        with pytest.raises(OutOfRangeError, match="100001"):
            store.read_ranges("k", [0, 99_999], [4, 100_001])


KEYS = (  # any store has to take these
    "a",
    "a.b",
    "a/b",
    "a/c/d",
    "a b",
    "...",
    ".zarray",
    "é/ü",
    "日本",
    "\U0001f600",
    "%2e%2e",
    "a\\b",
    "-",
    "q\n",
    "z\udcff",
)


def _is(store: Any, key: str, expected: bytes | None) -> bool:
    """Return True if every way of reading `key` gives `expected`."""
    value, stamped = store.open_reader()(key), store.read(key)
    if expected is None:
        return value is None and stamped.value is None and stamped.generation == MISSING_GENERATION
    return value is not None and bytes(value) == expected == bytes(stamped.value)


class KvStoreContract(RangeContract):
    """The suite; a subclass has a fixture ``store`` that gives an empty store.

    Attributes
    ----------
    conditional_writes_race : bool
        True if the store does not promise that only one of two concurrent conditional writes succeeds.
    writes_in_place : bool
        True if the store does not promise that readers see whole values.
    pickles_reference : bool
        True if an unpickled store is the same storage, not a copy of it.
    generations_of_content : bool
        True if writing the same bytes again may give the same generation.
    refused_keys : tuple of str
        Keys that the storage can't hold; writing them is an InvalidArgumentError.
    """

    conditional_writes_race: ClassVar[bool] = False
    writes_in_place: ClassVar[bool] = False
    pickles_reference: ClassVar[bool] = True
    generations_of_content: ClassVar[bool] = False
    refused_keys: ClassVar[tuple[str, ...]] = ()

    def test_is_a_driver(self, store: KvStoreDriver) -> None:
        """The store has all the methods of the protocol."""
        assert missing_members(store) == ()

    def test_traits(self, store: KvStoreDriver) -> None:
        """The traits match what the store does."""
        traits = traits_of(store)
        assert isinstance(traits, StoreTraits)
        for n in (traits.request_concurrency, traits.write_concurrency, traits.io_limit):
            assert n is None or n > 0
        store.write("d/k", b"hello")
        assert traits.conditional_writes("d/k") in (True, False)
        if not traits.conditional_writes("d/k"):
            assert self.conditional_writes_race
        if traits.is_cached is not None:
            assert traits.is_cached("d/k") in (True, False)
            assert traits.is_cached("d/k", 1, 3) in (True, False)
        if traits.suffix_ranges:
            assert bytes(store.read("d/k", byte_range=ByteRange(-2)).value or b"") == b"lo"

    def test_shard_indexes(self, store: KvStoreDriver) -> None:
        """An entry of the cache of shard indexes is there until it is evicted."""
        indexes = traits_of(store).shard_indexes
        if indexes is None:
            return
        indexes.put("d/k", "entry", 5)
        assert indexes.get("d/k") == "entry"
        assert indexes.get("k") is None
        indexes.evict("d/k")
        assert indexes.get("d/k") is None

    def test_writer(self, store: KvStoreDriver) -> None:
        """All readers see the values that the faster writer has written, and none that it has deleted."""
        opener = traits_of(store).open_writer
        if opener is None:
            return
        writer = opener()
        first = store.write("a/k", b"old")
        writer.write("a/k", b"new value")
        writer.write("a/b/c", bytearray(b"other"))
        writer.write("gone", b"")
        assert _is(store, "a/k", b"new value") and _is(store, "a/b/c", b"other") and _is(store, "gone", b"")
        assert store.write("a/k", b"conditional", if_equal=first) is None
        writer.delete("gone")
        writer.delete("never there")
        writer.flush()
        assert _is(store, "gone", None)
        assert sorted(store.list()) == ["a/b/c", "a/k"]

    def test_into_reader(self, store: KvStoreDriver) -> None:
        """Values are read into the caller's memory, and the returned size shows whether it was too large or
        too small."""
        opener = traits_of(store).open_into_reader
        read = None if opener is None else opener()
        if read is None:
            return
        store.write("a/k", b"hello")
        for size, expected in ((5, 5), (7, 5), (3, 4)):
            out = memoryview(bytearray(size))
            assert read("a/k", out) == expected
            assert bytes(out[:5]) == b"hello"[:size]
        assert read("a/none", memoryview(bytearray(3))) is None

    def test_open_value(self, store: KvStoreDriver) -> None:
        """An open value stays what it was, or says that it was changed; ranges outside it are errors."""
        opener: Any = store if offers(store, ValueOpenable) else None
        if opener is None:
            return
        assert opener.open_value("a/none") is None
        store.write("a/k", b"hello")
        value = opener.open_value("a/k")
        assert value is not None and value.size == 5
        with suppress(PermissionDeniedError):  # where an open file can't be replaced
            store.write("a/k", b"other value")
        found = [bytes(part) for part in value.read((1, 0, 5), (3, 5, 5))]
        assert found == [b"el", b"hello", b""] or value.changed()
        with pytest.raises(OutOfRangeError):
            value.read((3,), (6,))
        value.close()
        assert opener.open_value("a") is None

    def test_missing_is_a_value(self, store: KvStoreDriver) -> None:
        """A missing key is None, in a store without any key and below a missing or existing key."""
        assert _is(store, "nothing/here", None)
        store.write("k", b"1")
        assert _is(store, "k/below", None)
        assert _is(store, "kk", None)

    def test_read_what_was_written(self, store: KvStoreDriver) -> None:
        """Values of all sizes, also around those of buffers, and their replacements come back."""
        read = store.open_reader()
        for size in (0, 1, 511, 512, 4096, 65535, 65536, 65537, 300_000, 7):
            value = bytes(i * 7 % 251 for i in range(min(size, 1000))) * -(-size // 1000)
            store.write("d/v", value[:size])
            assert bytes(read("d/v") or b"") == value[:size]
            assert _is(store, "d/v", value[:size])

    def test_value_may_be_any_buffer(self, store: KvStoreDriver) -> None:
        """bytearray and memoryview, of more than one byte an element too, are written as their bytes."""
        store.write("k", bytearray(b"abc"))
        assert _is(store, "k", b"abc")
        store.write("k", memoryview(bytearray(range(8))).cast("I"))
        assert _is(store, "k", bytes(range(8)))

    def test_value_is_copied(self, store: KvStoreDriver) -> None:
        """A change of the caller's memory after a write does not change the value."""
        value = bytearray(b"abc")
        store.write("k", value)
        value[0] = 0
        assert _is(store, "k", b"abc")

    def test_a_later_write_does_not_change_what_was_read(self, store: KvStoreDriver) -> None:
        """A view that a reader gave out keeps the old value until the reader's next call."""
        store.write("k", b"old")
        got = store.open_reader()("k")
        store.write("k", b"new")
        assert got is not None and bytes(got) == b"old"

    @pytest.mark.parametrize("key", KEYS, ids=ascii)
    def test_keys(self, store: KvStoreDriver, key: str) -> None:
        """Keys with dots, spaces, backslashes, any Unicode, and bytes that are not UTF-8 are plain keys."""
        if key in self.refused_keys:
            with pytest.raises(InvalidArgumentError, match="Invalid"):
                store.write(key, b"")
            with suppress(InvalidArgumentError):
                assert store.read(key).value is None
            return
        store.write(key, key.encode("utf-8", "surrogateescape"))
        assert _is(store, key, key.encode("utf-8", "surrogateescape"))
        assert list(store.list()) == [key]
        assert store.describe(key)
        store.delete(key)
        assert list(store.list()) == []

    def test_generations(self, store: KvStoreDriver) -> None:
        """A write returns the generation that reads tell; each write, of the same bytes too, has its own."""
        seen = {MISSING_GENERATION, b""}
        for i in range(30):
            before = time.time()
            generation = store.write("k", b"%d" % i if self.generations_of_content else b"same")
            stamped = store.read("k")
            assert generation is not None and generation == stamped.generation
            assert generation not in seen
            assert before <= stamped.time <= time.time()
            seen.add(generation)

    def test_deleted_and_written_again_is_another_generation(self, store: KvStoreDriver) -> None:
        """A condition on a value that was deleted since does not hold for its successors."""
        first = store.write("k", b"1")
        for _ in range(30):
            store.delete("k")
            store.write("k", b"3" if self.generations_of_content else b"1")
            assert store.write("k", b"2", if_equal=first) is None
        assert _is(store, "k", b"3" if self.generations_of_content else b"1")

    def test_read_if_not_equal(self, store: KvStoreDriver) -> None:
        """A value that the caller has already is not sent again."""
        generation = store.write("k", b"v")
        known = store.read("k", if_not_equal=generation)
        assert (known.value, known.generation) == (None, generation)
        other = store.read("k", if_not_equal=MISSING_GENERATION)
        assert other.value is not None and bytes(other.value) == b"v"
        assert store.read("m", if_not_equal=MISSING_GENERATION).generation == MISSING_GENERATION

    def test_conditional_write(self, store: KvStoreDriver) -> None:
        """A write with a condition happens only if it holds; an unknown generation is no condition."""
        first = store.write("d/k", b"1", if_equal=MISSING_GENERATION)
        assert first is not None
        assert store.write("d/k", b"2", if_equal=MISSING_GENERATION) is None
        assert _is(store, "d/k", b"1")
        second = store.write("d/k", b"2", if_equal=first)
        assert second is not None
        assert store.write("d/k", b"3", if_equal=first) is None
        assert store.write("d/k", b"3", if_equal=b"foreign") is None
        assert _is(store, "d/k", b"2")
        assert store.write("d/k", b"4", if_equal=b"") is not None
        assert store.write("d/none", b"3", if_equal=second) is None
        assert _is(store, "d/none", None)
        assert list(store.list()) == ["d/k"]

    def test_delete(self, store: KvStoreDriver) -> None:
        """A deleted key is missing; deleting a missing key is not an error."""
        store.write("d/k", b"1")
        assert store.delete("d/k") == MISSING_GENERATION
        assert _is(store, "d/k", None)
        assert store.delete("d/k") == MISSING_GENERATION
        assert store.delete("x/y/z") == MISSING_GENERATION
        assert list(store.list()) == []

    def test_conditional_delete(self, store: KvStoreDriver) -> None:
        """A delete with a condition happens only if it holds."""
        first = store.write("k", b"1")
        second = store.write("k", b"2")
        assert store.delete("k", if_equal=first) is None
        assert store.delete("k", if_equal=MISSING_GENERATION) is None
        assert _is(store, "k", b"2")
        assert store.delete("k", if_equal=second) == MISSING_GENERATION
        assert store.delete("k", if_equal=second) is None
        assert store.delete("no/k", if_equal=second) is None
        assert store.delete("no/k", if_equal=MISSING_GENERATION) == MISSING_GENERATION
        assert _is(store, "k", None)

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            ("", "", "a/0 a/1/x a/1/y a/10 a0 b c/0/0 é"),
            ("a/", "a0", "a/0 a/1/x a/1/y a/10"),
            ("a/1", "a/2", "a/1/x a/1/y a/10"),
            ("a/1/", "a/10", "a/1/x a/1/y"),
            ("a/1/y", "c", "a/1/y a/10 a0 b"),
            ("b", "", "b c/0/0 é"),
            ("", "a/1/y", "a/0 a/1/x"),
            ("c/0/0", "c/0/1", "c/0/0"),
            ("d", "", "é"),
            ("\udcff", "", ""),
            ("b", "a", ""),
            ("../", "../\udcff", ""),
            ("x/y/z/", "x/y/z0", ""),
        ],
    )
    def test_ranges_of_keys(self, store: KvStoreDriver, start: str, stop: str, expected: str) -> None:
        """Listing and deleting a range concern the keys whose bytes lie in it, and no others."""
        everything = ["a/0", "a/1/x", "a/1/y", "a/10", "a0", "b", "c/0/0", "é"]
        for key in everything:
            store.write(key, b"1")
        assert sorted(store.list(start, stop)) == expected.split()
        store.delete_range(start, stop)
        assert sorted(store.list()) == [k for k in everything if k not in expected.split()]
        store.write("a/1/x", b"again")
        assert _is(store, "a/1/x", b"again")

    def test_list_children(self, store: KvStoreDriver) -> None:
        """A listing of one level has the keys and the prefixes right below, both whole."""
        for key in ("a/b/c", "a/b/d", "a/k", "a.b", "r", ".z"):
            store.write(key, b"")
        assert _sorted(store.list_children("")) == ([".z", "a.b", "r"], ["a"])
        assert _sorted(store.list_children("a/")) == (["a/k"], ["a/b"])
        assert _sorted(store.list_children("a/b/")) == (["a/b/c", "a/b/d"], [])
        assert _sorted(store.list_children("none/")) == ([], [])

    def test_threads_lose_no_update(self, store: KvStoreDriver) -> None:
        """Each of many read-modify-writes at once takes part in the result."""
        if self.conditional_writes_race:
            n_threads, n_each = 1, 10
        else:
            n_threads, n_each = 4, 25
        store.write("n", b"0")

        def add(n: int) -> None:
            for _ in range(n):
                while True:
                    value, generation, _time = store.read("n")
                    assert value is not None
                    if store.write("n", b"%d" % (int(bytes(value)) + 1), if_equal=generation) is not None:
                        break

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(add, [n_each] * n_threads))
        assert _is(store, "n", b"%d" % (n_threads * n_each))

    def test_readers_see_whole_values(self, store: KvStoreDriver) -> None:
        """While a key is replaced, readers get the old value or the new one, never a mixture or nothing."""
        values = [bytes([i]) * (20_000 + 5_000 * i) for i in range(2)]
        store.write("k", values[0])

        def write() -> None:
            for i in range(40):
                store.write("k", values[i % 2])

        def read() -> None:
            reader = store.open_reader()
            while not writer.done():
                got = reader("k")
                assert self.writes_in_place or (got is not None and bytes(got) in values)

        with ThreadPoolExecutor(2) as pool:
            writer = pool.submit(write)
            pool.submit(read).result()
            writer.result()

    def test_pickle_and_identity(self, store: KvStoreDriver) -> None:
        """A pickled store works in its new place; identity is hashable, and equal for the same storage."""
        store.write("k", b"v")
        copy: KvStoreDriver = pickle.loads(pickle.dumps(store))
        assert _is(copy, "k", b"v")
        assert hash(store.identity) == hash(store.identity)
        assert store.identity == store.identity
        assert (copy.identity == store.identity) == self.pickles_reference
        copy.write("k", b"w")
        assert _is(store, "k", b"w" if self.pickles_reference else b"v")


def _sorted(children: Children) -> tuple[list[str], list[str]]:
    return sorted(children.keys), sorted(children.prefixes)
