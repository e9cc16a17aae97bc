"""The part of the contract of stores that is about reading parts of values."""

from __future__ import annotations

import pytest

from chunkwise.core.kvstore.protocol import RangeReadable
from chunkwise.errors import InvalidArgumentError, OutOfRangeError
from chunkwise.extension import ByteRange, KvStoreDriver
from chunkwise.extension.inside import MISSING_GENERATION, offers

__all__ = ["RangeContract"]


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
