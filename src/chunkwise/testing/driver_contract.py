"""The contract of drivers of chunked formats, as a suite of tests to inherit from.

Examples
--------
In a test module::

    class TestZarr2(DriverContract):
        driver = "zarr"
        metadata_name = ".zarray"
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.testing.driver_arrays import Place, Selection, selections
from chunkwise.testing.shared_writes import SharedWrites

__all__ = ["DriverContract", "Place"]


class ArrayModel:
    """Elements by storage coordinate, including those that a resize has put outside for a while.

    A resize deletes chunks that are then wholly outside.  Elements beyond the edge in a remaining chunk come
    back when the array grows again.

    Parameters
    ----------
    shape, chunks : tuple of int
    dtype : str
    fill : scalar
        Value of a missing chunk.
    """

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, fill: Any) -> None:
        self.shape = shape
        self.chunks = chunks
        self.fill = fill
        self._all: npt.NDArray[Any] = np.full([16] * len(shape), fill, dtype)

    def _region(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        return (*[slice(0, n) for n in shape], ...)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The elements of the array."""
        values: npt.NDArray[Any] = self._all[self._region(self.shape)]
        return values

    def _positions(self, selection: Selection) -> npt.NDArray[np.int64]:
        numbered = np.arange(self._all.size).reshape(self._all.shape)
        return np.asarray(selection.of_array(numbered[self._region(self.shape)]))

    def read(self, selection: Selection) -> npt.NDArray[Any]:
        """Return the selected elements."""
        values: npt.NDArray[Any] = self._all.reshape(-1)[self._positions(selection)]
        return np.asarray(values)

    def write(self, selection: Selection, values: npt.NDArray[Any]) -> None:
        """Replace the selected elements; of several values for one the last stays."""
        self._all.reshape(-1)[self._positions(selection).reshape(-1)] = values.reshape(-1)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Change the shape; elements in chunks that are then wholly outside are lost."""
        kept = tuple(-(-n // c) * c for n, c in zip(shape, self.chunks, strict=True))
        before = tuple(-(-n // c) * c for n, c in zip(self.shape, self.chunks, strict=True))
        lost = np.zeros(self._all.shape, bool)
        lost[self._region(before)] = True
        lost[self._region(kept)] = False
        self._all[lost] = self.fill
        self.shape = shape


FEW = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    # The suites of one module share the tests; nothing is replayed from a database.
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,
    ],
)


class DriverContract(SharedWrites):
    """The suite; see `chunkwise.testing.driver_arrays.DriverArrays` for the members of a subclass."""

    # -- describing ---------------------------------------------------------------------------------

    def test_spec_opens_the_array_again(self, place: Place) -> None:
        """The spec of an array, as JSON and back, opens the same array, and so does that of a view."""
        store = self.create(place, place.new(), (6, 5), (4, 2))
        store[...] = values = np.arange(30, dtype=np.uint16).reshape(6, 5)
        for spec in (
            store.spec(),
            ts.Spec(store.spec().to_json()),
            ts.Spec(store.spec().to_json(include_defaults=True)),
        ):
            again = ts.open(spec, context=place.context).result()
            assert again.domain == store.domain and again.dtype == store.dtype
            np.testing.assert_array_equal(again.read().result(), values)
            assert again.spec().to_json() == store.spec().to_json()
        view = store[1:4, ::2]
        again = ts.open(view.spec(), context=place.context).result()
        assert again.domain == view.domain
        np.testing.assert_array_equal(again.read().result(), values[1:4, ::2])
        assert json.loads(json.dumps(store.spec().to_json())) == store.spec().to_json()

    def test_schema_creates_an_equal_array(self, place: Place) -> None:
        """The schema of an array creates another one like it."""
        store = self.create(place, place.new(), (6, 5), (4, 2))
        url = place.new()
        other = ts.open(
            self.spec(url, metadata=dict(self.metadata)),
            create=True,
            schema=store.schema,
            context=place.context,
        ).result()
        assert other.schema == store.schema
        assert other.chunk_layout == store.chunk_layout
        assert str(other.codec) == str(store.codec)
        assert other.spec().to_json()["metadata"] == store.spec().to_json()["metadata"]

    def test_pickle(self, tmp_path: Path) -> None:
        """A store, a view and a spec survive pickling."""
        place = Place(f"file://{tmp_path}/", ts.Context())
        store = self.create(place, place.new(), (6, 5), (4, 2))
        store[...] = values = np.arange(30, dtype=np.uint16).reshape(6, 5)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(store)).read().result(), values)
        view = pickle.loads(pickle.dumps(store[2:5, 3]))
        assert view.domain == store[2:5, 3].domain
        np.testing.assert_array_equal(view.read().result(), values[2:5, 3])
        spec = pickle.loads(pickle.dumps(store.spec()))
        assert spec.to_json() == store.spec().to_json()

    # -- values -------------------------------------------------------------------------------------

    @FEW
    @given(data=st.data())
    def test_behaves_like_an_array(self, place: Place, data: st.DataObject) -> None:
        """Random reads, writes, resizes and reopenings agree with a NumPy array."""
        rank = data.draw(st.integers(0, min(4, self.max_rank)), "rank")
        shape = tuple(data.draw(st.integers(0, 9)) for _ in range(rank))
        chunks = tuple(data.draw(st.integers(1, 6)) for _ in range(rank))
        dtype = data.draw(st.sampled_from(self.dtypes), "dtype")
        url = place.new()
        store = self.create(place, url, shape, chunks, dtype)
        fill = np.dtype(dtype).type(self.fill_value or 0)
        model = ArrayModel(shape, self.stored_chunk(chunks), dtype, fill)
        for step in range(data.draw(st.integers(1, 6), "steps")):
            what = data.draw(st.sampled_from(["write", "write", "read", "resize", "reopen"]))
            if what == "reopen":
                store = self.reopen(place, url)
            elif what == "resize" and rank:
                new = tuple(data.draw(st.integers(0, 9)) for _ in range(rank))
                store = store.resize(exclusive_max=new).result()
                model.resize(new)
            elif what == "write":
                selection = data.draw(selections(model.shape), f"write {step}")
                want = model.read(selection)
                values: npt.NDArray[Any] = (
                    (np.arange(want.size) * 3 + step + 1).astype(dtype).reshape(want.shape)
                )
                selection.of_store(store).write(values).result()
                model.write(selection, values)
            selection = data.draw(selections(model.shape), f"read {step}")
            got = selection.of_store(store).read().result()
            np.testing.assert_array_equal(got, model.read(selection))
        np.testing.assert_array_equal(self.reopen(place, url).read().result(), model.values)

    @pytest.mark.parametrize("rank", range(6))
    def test_ranks(self, place: Place, rank: int) -> None:
        """Arrays of rank 0 to 5, with an edge that no chunk ends at."""
        if rank > self.max_rank:
            with pytest.raises(ValueError):
                self.create(place, place.new(), (3,) * rank, (2,) * rank)
            return
        shape = (5, 3, 4, 2, 3)[:rank]
        url = place.new()
        store = self.create(place, url, shape, (2, 3, 3, 1, 2)[:rank], "int32")
        values = np.arange(1, store.size + 1, dtype=np.int32).reshape(shape)
        store[...] = values
        np.testing.assert_array_equal(self.reopen(place, url).read().result(), values)
        np.testing.assert_array_equal(store.read(order="F").result(), values)

    def test_empty_dimensions(self, place: Place) -> None:
        """An array without elements is read, written, resized and has no chunks."""
        url = place.new()
        store = self.create(place, url, (0, 4), (2, 3))
        store[...] = np.zeros((0, 4), np.uint16)
        assert store.read().result().shape == (0, 4)
        assert self.chunk_keys(place, url) == []
        store = store.resize(exclusive_max=[3, 4]).result()
        np.testing.assert_array_equal(store.read().result(), np.full((3, 4), self.fill_value or 0))
        assert store.resize(exclusive_max=[0, 0]).result().shape == (0, 0)

    def test_chunk_larger_than_the_array(self, place: Place) -> None:
        """Elements of a chunk outside the array are kept when the array grows and shrinks."""
        url = place.new()
        store = self.create(place, url, (3, 2), (10, 7))
        store[...] = values = np.arange(6, dtype=np.uint16).reshape(3, 2) + 1
        assert len(self.chunk_keys(place, url)) == 1
        store = self.reopen(place, url).resize(exclusive_max=[5, 4]).result()
        want = np.full((5, 4), self.fill_value or 0, np.uint16)
        want[:3, :2] = values
        np.testing.assert_array_equal(store.read().result(), want)

    def test_missing_chunks(self, place: Place) -> None:
        """A missing chunk reads as the fill value, or is an error if that is asked for."""
        url = place.new()
        store = self.create(place, url, (6, 6), (3, 3))
        want = np.full((6, 6), self.fill_value or 0, np.uint16)
        np.testing.assert_array_equal(store.read().result(), want)
        strict = self.reopen(place, url, fill_missing_data_reads=False)
        with pytest.raises(ValueError, match=r"(?s)NOT_FOUND.*chunk \{\d, \d\} stored at .* is missing"):
            strict.read().result()
        strict[4, 1] = want[4, 1] = 9
        assert strict[4, 1].read().result() == 9
        np.testing.assert_array_equal(store.read().result(), want)
        with pytest.raises(ValueError, match=r"NOT_FOUND.*is missing"):
            strict[2:4].read().result()

    def test_chunks_equal_to_the_fill_value(self, place: Place) -> None:
        """They are not stored, or deleted, unless it is asked for."""
        fill = self.fill_value or 0
        url = place.new()
        store = self.create(place, url, (6, 6), (3, 3))
        store[...] = fill
        assert self.chunk_keys(place, url) == []
        store[1, 1] = fill + 1
        assert len(self.chunk_keys(place, url)) == 1
        store[1, 1] = fill
        assert len(self.chunk_keys(place, url)) == (0 if self.conditional_deletes else 1)
        store[...] = fill
        assert self.chunk_keys(place, url) == []
        keeping = self.reopen(place, url, store_data_equal_to_fill_value=True)
        keeping[...] = fill
        n = 4 if self.shard is None else 1
        assert len(self.chunk_keys(place, url)) == n
        np.testing.assert_array_equal(store.read().result(), np.full((6, 6), fill))
        assert _statistics(store, query_fully_stored=True) == (None, True)

    def test_storage_statistics(self, place: Place) -> None:
        """Statistics say if none and if all of the chunks that a view meets are stored."""
        store = self.create(place, place.new(), (6, 6), (3, 3))
        ask = {"query_not_stored": True, "query_fully_stored": True}
        assert _statistics(store, **ask) == (True, False)
        store[0, 0] = 1
        assert _statistics(store, **ask) == (False, False)
        assert _statistics(store[:3, :3], **ask) == (False, True)
        assert _statistics(store[3:], **ask) == (True, False)
        assert _statistics(store[2:2], **ask) == (True, True)
        assert _statistics(store) == (None, None)

    # -- opening ------------------------------------------------------------------------------------

    def test_open_modes(self, place: Place) -> None:
        """Open, create and delete_existing, with and without an existing array."""
        url = place.new()
        with pytest.raises(ValueError, match=f"NOT_FOUND.*{self.metadata_name}"):
            self.reopen(place, url)
        assert place.keys(url) == []
        store = self.create(place, url, (6, 6), (3, 3))
        assert place.keys(url) == sorted([self.metadata_name, *self.companions])
        store[...] = 5
        with pytest.raises(ValueError, match="ALREADY_EXISTS"):
            self.create(place, url, (6, 6), (3, 3))
        both = ts.open(self.spec(url), open=True, create=True, context=place.context).result()
        assert (both.read().result() == 5).all()
        with pytest.raises(ValueError, match="FAILED_PRECONDITION"):
            ts.open(self.spec(url), open=True, create=True, dtype="int8", context=place.context).result()
        new = self.create(place, url, (4, 4), (2, 2), delete_existing=True)
        assert new.shape == (4, 4) and self.chunk_keys(place, url) == []
        modes: tuple[dict[str, Any], ...] = ({}, {"open": True, "create": True})
        for mode in modes:
            with pytest.raises(ValueError, match="delete_existing"):
                ts.open(self.spec(url), delete_existing=True, context=place.context, **mode).result()
        with pytest.raises(ValueError, match="create"):
            ts.open(self.spec(place.new()), read=True, create=True, dtype="int8", shape=[2]).result()

    def test_assume_metadata(self, place: Place) -> None:
        """The spec alone decides; nothing is read or written to open."""
        url = place.new()
        store = self.create(place, url, (6, 6), (3, 3))
        store[...] = 5
        spec = store.spec().to_json()
        ts.KvStore.open(url, context=place.context).result().write(self.metadata_name, None).result()
        with pytest.raises(ValueError, match="NOT_FOUND"):
            ts.open(spec, context=place.context).result()
        assumed = ts.open(spec, open=True, assume_metadata=True, context=place.context).result()
        assert (assumed.read().result() == 5).all()
        with pytest.raises(ValueError, match="assume_metadata"):
            assumed.resize(exclusive_max=[2, 2]).result()
        assert self.metadata_name not in place.keys(url)

    def test_read_and_write_modes(self, place: Place) -> None:
        """A store opened for one thing refuses the other."""
        url = place.new()
        self.create(place, url, (6,), (3,))
        reader = ts.open(self.spec(url), read=True, context=place.context).result()
        writer = ts.open(self.spec(url), write=True, context=place.context).result()
        assert (reader.mode, writer.mode) == ("r", "w")
        with pytest.raises(ValueError, match="does not support writing"):
            reader.write(1).result()
        with pytest.raises(ValueError, match="does not support writing"):
            reader.resize(exclusive_max=[2]).result()
        with pytest.raises(ValueError, match="does not support reading"):
            writer.read().result()

    def test_bad_requests(self, place: Place) -> None:
        """Indices outside, and values that don't fit, change nothing."""
        store = self.create(place, place.new(), (6, 5), (3, 3))
        for bad in (6, -1, (0, 5), slice(2, 9), [0, 6]):
            with pytest.raises((IndexError, ValueError), match=r"range|OUT_OF_RANGE|domain|contained"):
                store[bad].read().result()
        with pytest.raises(IndexError):
            store[0, 0, 0]
        with pytest.raises(ValueError, match=r"shape|dimension"):
            store[:2].write(np.zeros((3, 5), np.uint16)).result()
        with pytest.raises(ValueError):
            store.write(np.zeros((1, 6, 5), np.uint16)).result()
        for source in (np.ones((6, 5)), "text", np.array(1j)):
            with pytest.raises((TypeError, ValueError)):
                store.write(source).result()
        assert (store.read().result() == (self.fill_value or 0)).all()


def _statistics(view: ts.TensorStore, **queries: bool) -> tuple[bool | None, bool | None]:
    found = view.storage_statistics(**queries).result()
    return found.not_stored, found.fully_stored
