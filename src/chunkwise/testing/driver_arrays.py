"""Arrays for the suite of a driver, places to keep them, and random selections of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise import newaxis

__all__ = ["DriverArrays", "Place", "Selection", "selections"]


@dataclass
class Place:
    """Somewhere to keep arrays; each name is another array.

    Attributes
    ----------
    root : str
        URL that ends in ``/``.
    context : Context
        Owner of memory stores.
    """

    root: str
    context: ts.Context
    n: int = 0

    def new(self) -> str:
        """Return the URL of an array that doesn't exist yet."""
        self.n += 1
        return f"{self.root}{self.n}/"

    def keys(self, url: str) -> list[str]:
        """Return the keys of the array at `url`, sorted."""
        store = ts.KvStore.open(url, context=self.context).result()
        return sorted(key.decode() if isinstance(key, bytes) else key for key in store.list().result())


class DriverArrays:
    """Arrays of one driver; a subclass describes its format.

    Attributes
    ----------
    driver : str
        Driver id.
    metadata_name : str
        Key of the metadata document, relative to the array.
    companions : tuple of str
        Further keys that a new array has.
    metadata : dict
        Members of ``metadata`` that each new array gets.
    dtypes : tuple of str
    fill_value : int or None
        The fill value of new arrays; None if the format has none, and missing chunks read as zero.
    max_rank : int
    shard : int or None
        If given, each write chunk is so many read chunks wide.
    conditional_deletes : bool
        Whether the store supports conditional deletes; if not, a chunk that a partial write makes equal to
        the fill value stays stored.
    """

    driver: ClassVar[str]
    metadata_name: ClassVar[str]
    companions: ClassVar[tuple[str, ...]] = ()
    metadata: ClassVar[dict[str, Any]] = {}
    dtypes: ClassVar[tuple[str, ...]] = ("uint8", "int16", "uint32", "float64")
    fill_value: ClassVar[int | None] = 7
    max_rank: ClassVar[int] = 5
    shard: ClassVar[int | None] = None
    conditional_deletes: ClassVar[bool] = True

    @pytest.fixture(params=["memory", "file"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        """A fixture: the place of the arrays of a test."""
        root = "memory://" if request.param == "memory" else f"file://{tmp_path}/"
        # No fsync: these tests don't cut the power.
        return Place(root, ts.Context({"file_io_sync": False}))

    def spec(self, url: str, **members: Any) -> dict[str, Any]:
        """Return a spec of the array at `url`."""
        return {"driver": self.driver, "kvstore": url, **members}

    def create(
        self,
        place: Place,
        url: str,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        dtype: str = "uint16",
        **members: Any,
    ) -> ts.TensorStore:
        """Create an array of the kind that this suite is about."""
        layout: dict[str, Any] = {"chunk": {"shape": list(chunks)}}
        if self.shard is not None:
            layout = {
                "read_chunk": {"shape": list(chunks)},
                "write_chunk": {"shape": [n * self.shard for n in chunks]},
            }
        fill = {} if self.fill_value is None else {"fill_value": self.fill_value}
        spec = self.spec(
            url, metadata=dict(self.metadata), schema={"chunk_layout": layout, **fill}, **members
        )
        return ts.open(spec, create=True, dtype=dtype, shape=shape, context=place.context).result()

    def reopen(self, place: Place, url: str, **members: Any) -> ts.TensorStore:
        """Open an existing array."""
        return ts.open(self.spec(url, **members), context=place.context).result()

    def stored_chunk(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the object stored under one key."""
        return tuple(n * (self.shard or 1) for n in chunks)

    def chunk_keys(self, place: Place, url: str) -> list[str]:
        """Return the keys of the stored chunks."""
        return [key for key in place.keys(url) if key not in (self.metadata_name, *self.companions)]


class Selection(NamedTuple):
    """The same selection in two index spaces."""

    text: str  # for messages
    of_store: Callable[[Any], Any]
    of_array: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

    def __repr__(self) -> str:
        return self.text


def selections(shape: tuple[int, ...]) -> st.SearchStrategy[Selection]:
    """Integers, slices with steps of either sign, index arrays, masks, new axes and transposes.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array; sizes may be 0.
    """
    kinds = [_basic(shape), _transposed(shape), st.just(Selection("...", _all, _all))]
    if shape:
        kinds += [_outer(shape), _masked(shape)]
    if len(shape) > 1 and 0 not in shape:
        kinds.append(_joint(shape))
    return st.one_of(kinds)


def _all(array: Any) -> Any:
    return array[...]


@st.composite
def _slice(draw: st.DrawFn, size: int) -> slice:
    lo = draw(st.integers(0, size))
    hi = draw(st.integers(lo, size))
    step = draw(st.sampled_from([1, 1, 2, 3, 7, -1, -2, -5]))
    if lo == hi:
        return slice(lo, hi)
    return slice(lo, hi, step) if step > 0 else slice(hi - 1, lo - 1, step)


def _for_numpy(item: Any) -> Any:
    """Return the slice for NumPy, where a stop of -1 means something else."""
    if isinstance(item, slice) and item.step is not None and item.step < 0 and item.stop < 0:
        return slice(item.start, None, item.step)
    return item


@st.composite
def _basic(draw: st.DrawFn, shape: tuple[int, ...]) -> Selection:
    terms: list[Any] = []
    for size in shape:
        if draw(st.integers(0, 9)) == 0:
            terms.append(newaxis)
        if size and draw(st.integers(0, 3)) == 0:
            terms.append(draw(st.integers(0, size - 1)))
        else:
            terms.append(draw(_slice(size)))
    index = tuple(terms)
    mirror = (*map(_for_numpy, terms), ...)
    return Selection(repr(index), lambda s: s[index], lambda a: a[mirror])


@st.composite
def _transposed(draw: st.DrawFn, shape: tuple[int, ...]) -> Selection:
    order = draw(st.permutations(range(len(shape))))
    inner = draw(_basic(tuple(shape[i] for i in order)))
    axes = tuple(order)

    def of_store(store: Any) -> Any:
        from chunkwise import d

        return inner.of_store(store[d[axes].transpose[:]] if axes else store)

    return Selection(f"transpose{axes}{inner.text}", of_store, lambda a: inner.of_array(a.transpose(axes)))


@st.composite
def _indices(draw: st.DrawFn, size: int, rank: int = 1) -> npt.NDArray[np.int64]:
    shape = tuple(draw(st.integers(0 if size == 0 else 1, 4)) for _ in range(rank))
    if size == 0:
        shape = (0,) * rank
    n = int(np.prod(shape))
    return np.array(
        draw(st.lists(st.integers(0, max(size - 1, 0)), min_size=n, max_size=n)), np.int64
    ).reshape(shape)


@st.composite
def _outer(draw: st.DrawFn, shape: tuple[int, ...]) -> Selection:
    terms: list[Any] = [draw(_indices(size)) if draw(st.booleans()) else draw(_slice(size)) for size in shape]
    index = tuple(terms)
    mirror = np.ix_(
        *[
            t if isinstance(t, np.ndarray) else np.arange(n)[_for_numpy(t)]
            for t, n in zip(terms, shape, strict=True)
        ]
    )
    return Selection(f"oindex{index}", lambda s: s.oindex[index], lambda a: a[mirror])


@st.composite
def _masked(draw: st.DrawFn, shape: tuple[int, ...]) -> Selection:
    n = int(np.prod(shape))
    bits = draw(st.integers(0, 2 ** min(n, 60) - 1))
    mask = np.array([bits >> (i % 60) & 1 for i in range(n)], bool).reshape(shape)
    return Selection(f"mask {mask.sum()} of {n}", lambda s: s[mask], lambda a: a[mask])


@st.composite
def _joint(draw: st.DrawFn, shape: tuple[int, ...]) -> Selection:
    """Two index arrays that are broadcast against each other, with slices for the rest, at any place."""
    first, second = sorted(
        draw(st.lists(st.integers(0, len(shape) - 1), min_size=2, max_size=2, unique=True))
    )
    a = draw(_indices(shape[first], rank=2))
    n = a.shape[1]
    b = np.array(draw(st.lists(st.integers(0, shape[second] - 1), min_size=n, max_size=n)), np.int64)
    terms: list[Any] = [
        a if i == first else b if i == second else draw(_slice(size)) for i, size in enumerate(shape)
    ]
    index = tuple(terms)
    mirror = tuple(map(_for_numpy, terms))
    return Selection(f"index arrays {index}", lambda s: s[index], lambda x: x[mirror])
