"""Data chunk iterators: pieces of any shape and order, written by whole chunks and shards; their progress."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from examples import examples
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.data_utils import AbstractDataChunkIterator, DataChunk, GenericDataChunkIterator
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.trees.location import locate
from chunkwise.hdmf import ZarrDataIO, ZarrIO, open_store

pytestmark = pytest.mark.filterwarnings("ignore")

FORMATS = ("zarr2", "zarr3", "n5")


class Blocks(GenericDataChunkIterator):
    """An array in blocks, the last axis first."""

    def __init__(self, array: Any, **options: Any) -> None:
        self.array = array
        super().__init__(**options)

    def _get_data(self, selection: Any) -> Any:
        return self.array[selection]

    def _get_maxshape(self) -> tuple[int, ...]:
        return self.array.shape

    def _get_dtype(self) -> Any:
        return self.array.dtype


class Pieces(AbstractDataChunkIterator):
    """Given boxes of an array in a given order; which axes have a known length is told."""

    def __init__(self, boxes: list[Any], values: list[Any], maxshape: tuple[int | None, ...]) -> None:
        self._left = list(zip(boxes, values, strict=True))
        self._maxshape = maxshape

    def __iter__(self) -> Pieces:
        return self

    def __next__(self) -> DataChunk:
        if not self._left:
            raise StopIteration
        box, value = self._left.pop(0)
        return DataChunk(np.full([stop - start for start, stop in box], value), tuple(slice(*b) for b in box))

    def recommended_chunk_shape(self) -> None:
        return None

    def recommended_data_shape(self) -> tuple[int, ...]:
        return tuple(n or 0 for n in self._maxshape)

    @property
    def dtype(self) -> Any:
        return np.dtype("i8")

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        return self._maxshape


_PLAIN = (
    "read",
    "open_reader",
    "list",
    "list_children",
    "identity",
    "describe",
    "delete",
    "delete_range",
)


class CountingStore:
    """Hands everything to another store and counts what is written."""

    def __init__(self, kv: Any) -> None:
        self.kv = kv
        self.written: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name not in _PLAIN:
            raise AttributeError(name)
        return getattr(self.kv, name)

    def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
        self.written[key] += 1
        generation: bytes | None = self.kv.write(key, value, if_equal=if_equal)
        return generation


class MeetingStore(CountingStore):
    """A store in which two chunks of a dataset have to be written at the same time."""

    def __init__(self, kv: Any) -> None:
        super().__init__(kv)
        self.meeting = threading.Barrier(2, timeout=60)
        self.threads: set[int] = set()

    def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
        if "/d/" in key and key[-1].isdigit() and len(self.threads) < 2:
            self.threads.add(threading.get_ident())
            self.meeting.wait()
        return super().write(key, value, if_equal=if_equal)


def _write(place: Any, data: Any, format: str = "zarr3", dtype: str = "int64", **options: Any) -> None:
    with ZarrIO(place, "w", format=format, **options) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", data, dtype=dtype)]))


@pytest.mark.parametrize("buffer", [(5, 4), (5, 12), (10, 4), (20, 4), (15, 8)])
@pytest.mark.parametrize(("format", "options"), [("zarr3", {"shards": (10, 8)}), ("zarr2", {}), ("n5", {})])
def test_each_chunk_or_shard_is_written_once(
    format: str, options: dict[str, Any], buffer: tuple[int, int], tmp_path: Path
) -> None:
    array = np.arange(1, 20 * 12 + 1).reshape(20, 12)
    chunks = (5, 4) if options else (10, 8)
    blocks = Blocks(array, buffer_shape=buffer, chunk_shape=(5, 4))
    place = locate(str(tmp_path / "a"))
    store = CountingStore(place.store)
    _write(place._replace(store=store), ZarrDataIO(blocks, chunks=chunks, **options), format)
    chunks_written = [n for key, n in store.written.items() if "/d/" in key and key[-1].isdigit()]
    assert chunks_written == [1] * 4
    np.testing.assert_array_equal(open_store(tmp_path / "a").dataset("/d").read(), array)


@pytest.mark.each_once
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one processor")
@pytest.mark.parametrize(
    ("n_chunks", "length"), [(None, 1 << 18), (1, 1 << 12), (1, 1 << 18), (1, 1 << 20), (2, 1 << 18)]
)
@pytest.mark.parametrize("format", FORMATS)
def test_chunks_are_compressed_by_several_threads(
    format: str, n_chunks: int | None, length: int, tmp_path: Path
) -> None:
    """An array is, and so is what an iterator yields, be it one small or one large chunk at a time."""
    array = np.random.default_rng(1).integers(0, 4096, (max(8, (1 << 21) // length), length))
    data: Any = array
    if n_chunks is not None:
        data = Blocks(array, buffer_shape=(n_chunks, length), chunk_shape=(1, length))
    place = locate(str(tmp_path / "a"))
    store = MeetingStore(place.store)
    with ZarrIO(place._replace(store=store), "w", format=format) as io:
        d = DatasetBuilder("d", ZarrDataIO(data, chunks=(1, length)), dtype="int64")
        io.write_builder(GroupBuilder("root", datasets=[d]))
    assert len(store.threads) == 2
    np.testing.assert_array_equal(open_store(tmp_path / "a").dataset("/d").read(), array)


def test_a_small_buffer_is_kept(tmp_path: Path) -> None:
    """Chunks that can't all wait until they are whole are written in parts."""
    array = np.arange(1, 20 * 12 + 1).reshape(20, 12)
    blocks = Blocks(array, buffer_shape=(5, 4), chunk_shape=(5, 4))
    _write(tmp_path / "a", ZarrDataIO(blocks, chunks=(5, 4), shards=(20, 4)), buffer_nbytes=1000)
    np.testing.assert_array_equal(open_store(tmp_path / "a").dataset("/d").read(), array)


BOUNDS = st.tuples(st.integers(0, 11), st.integers(1, 12)).filter(lambda b: b[0] < b[1])
BOXES = st.lists(st.tuples(BOUNDS, BOUNDS), min_size=1, max_size=8)


@settings(max_examples=examples(60), deadline=None)
@given(
    BOXES,
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.sampled_from([(None, None), (None, 12), (12, None), (12, 12), (6, 12)]),
    st.sampled_from([1, 400, 1 << 20]),
    st.sampled_from(["zarr3", "n5"]),
)
def test_pieces_of_any_shape_and_order(
    tmp_path_factory: pytest.TempPathFactory,
    boxes: list[Any],
    chunks: tuple[int, int],
    maxshape: tuple[int | None, ...],
    buffer: int,
    format: str,
) -> None:
    """Later pieces win; an iterator may yield more than it has announced."""
    expected = np.zeros((12, 12), "i8")
    values = list(range(1, len(boxes) + 1))
    for (a, b), value in zip(boxes, values, strict=True):
        expected[slice(*a), slice(*b)] = value
    path = tmp_path_factory.mktemp("pieces")
    data = ZarrDataIO(Pieces(boxes, values, maxshape), chunks=chunks)
    _write(path / "a", data, format, buffer_nbytes=buffer)
    found = open_store(path / "a").dataset("/d").read()
    least = 1 if format == "n5" else 0
    shape = [max(n or least, *(box[axis][1] for box in boxes)) for axis, n in enumerate(maxshape)]
    assert list(found.shape) == shape
    np.testing.assert_array_equal(found, expected[: shape[0], : shape[1]])


@pytest.mark.parametrize("exhaust", [True, False])
def test_the_progress_bar_of_an_iterator_goes_to_its_end(
    exhaust: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []

    class Bar:
        def __init__(self, total: int, desc: str = "") -> None:
            self.total, self.desc, self.n = total, desc, 0
            bars.append(self)

        def update(self, n: int = 1) -> None:
            self.n += n

        def write(self, text: str) -> None:
            pass

    module = ModuleType("tqdm")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", module)
    blocks = Blocks(
        np.arange(40).reshape(10, 4),
        buffer_shape=(5, 2),
        chunk_shape=(5, 2),
        display_progress=True,
        progress_bar_options={"desc": "writing"},
    )
    root = GroupBuilder("root", datasets=[DatasetBuilder("d", blocks, dtype="int64")])
    with ZarrIO(tmp_path / "a", "w") as io:
        io.write_builder(root, exhaust_dci=exhaust)
    assert [(bar.desc, bar.n, bar.total) for bar in bars] == [("writing", 4, 4)]
