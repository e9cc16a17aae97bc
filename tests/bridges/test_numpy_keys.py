"""Keys by NumPy's rules select the same at every entry that takes them, or raise IndexError as NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, TypeMap
from hdmf.spec import NamespaceCatalog
from hypothesis import given, settings
from hypothesis import strategies as st
from xarray.core import indexing

import chunkwise
import chunkwise.z5py
from chunkwise.core.index_space.numpy_rules import as_slice, positions
from chunkwise.dask.convert import Indexable
from chunkwise.hdmf import ZarrIO
from chunkwise.hdmf.model.region import normalize_region, select_region
from chunkwise.xarray.members import LazyArray

SHAPE = (4, 5, 3)
VALUES = np.arange(60, dtype="i4").reshape(SHAPE)
TEXTS = np.array([f"t{i}" for i in range(60)], object).reshape(SHAPE)

pytestmark = pytest.mark.filterwarnings("ignore")


class Entry(NamedTuple):
    """Something that is indexed by NumPy's rules, and the kinds of terms that it takes beside integers."""

    open: Callable[[Path], Any]
    kinds: str
    values: np.ndarray[Any, Any] = VALUES
    # Whether arrays select a product, dimensions in order; with "one", an array beside integers keeps its
    # dimension in order, and several arrays are paired.
    outer: bool | Literal["one"] = False
    refusal: Any = IndexError  # what is raised where NumPy raises IndexError
    write: bool = True


def stored(path: Path) -> chunkwise.TensorStore:
    """Return an array whose domain does not begin at 0."""
    store = chunkwise.open(
        {"driver": "zarr", "kvstore": f"file://{path}/stored.zarr/"},
        create=True,
        open=True,
        shape=SHAPE,
        dtype=VALUES.dtype,
        chunk_layout=chunkwise.ChunkLayout(chunk_shape=[2, 2, 2]),
    ).result()
    store.write(VALUES).result()
    return store.translate_by[7, -9, 2]


def z5py(name: str) -> Callable[[Path], Any]:
    """Return a function that makes a dataset of z5py in a file of that name."""

    def make(path: Path) -> Any:
        file = chunkwise.z5py.File(path / name, "a")
        return file.require_dataset("a", SHAPE, VALUES.dtype, (2, 2, 2))

    return make


def hdmf(format: str, values: np.ndarray[Any, Any]) -> Callable[[Path], Any]:
    """Return a function that writes a dataset of HDMF, and opens it."""

    def make(path: Path) -> Any:
        dtype = "utf8" if values is TEXTS else "int32"
        place, manager = path / f"{format}-{dtype}", BuildManager(TypeMap(NamespaceCatalog()))
        with ZarrIO(place, "w", manager, format=format) as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", values, dtype=dtype)]))
        io = ZarrIO(place, "r+", manager, format=format)
        io.open()
        return io.read_builder().datasets["a"].data

    return make


class Outer:
    """The data of a variable of xarray, indexed term by term."""

    def __init__(self, path: Path) -> None:
        self._array = LazyArray(stored(path))

    def __getitem__(self, key: Any) -> Any:
        return self._array[indexing.OuterIndexer(key)] if key else self._array[indexing.BasicIndexer(key)]


class Regions:
    """Region references of HDMF: what they select, flat."""

    def __init__(self, path: Path) -> None:
        pass

    def __getitem__(self, key: Any) -> Any:
        return select_region(VALUES, normalize_region(key, SHAPE))


class InMemory:
    """Positions, used on an array in memory."""

    def __init__(self, path: Path) -> None:
        pass

    def __getitem__(self, key: Any) -> Any:
        terms = [as_slice(p) if isinstance(p, range) else p for p in positions(key, SHAPE)]
        return VALUES[tuple(terms)]


ENTRIES = {
    "positions": Entry(InMemory, "slice step list mask masks ellipsis newaxis extra", write=False),
    "dask": Entry(lambda path: Indexable(stored(path)), "slice step list mask masks ellipsis newaxis extra"),
    "xarray": Entry(Outer, "slice step list full", outer=True, write=False),
    "z5py N5": Entry(z5py("a.n5"), "slice ellipsis"),
    "z5py Zarr": Entry(z5py("a.zarr"), "slice ellipsis extra", refusal=(IndexError, TypeError)),
    "hdmf zarr2": Entry(hdmf("zarr2", VALUES), "slice step list mask ellipsis extra", VALUES, outer="one"),
    "hdmf zarr3": Entry(hdmf("zarr3", TEXTS), "slice step list mask ellipsis extra", TEXTS, outer="one"),
    "hdmf n5": Entry(hdmf("n5", VALUES), "slice step list mask ellipsis extra", VALUES, outer="one"),
    "hdmf n5 text": Entry(hdmf("n5", TEXTS), "slice step list mask ellipsis extra", TEXTS, outer="one"),
    "hdmf regions": Entry(Regions, "slice ellipsis extra flat", write=False),
}


@st.composite
def terms(draw: st.DrawFn, n: int, kinds: set[str]) -> Any:
    """Draw a term for a dimension of size `n`, now and then one that is outside."""
    kind = draw(st.sampled_from(["int", *sorted(kinds & {"slice", "list", "mask"})]))
    if kind == "slice":
        ends = st.none() | st.integers(-n - 2, n + 2)
        step = st.sampled_from([None, 1, 2, -1, -2]) if "step" in kinds else st.none()
        return slice(draw(ends), draw(ends), draw(step))
    inside = st.integers(-n, n - 1)
    if kind == "list":
        listed = draw(st.lists(inside, max_size=4) | st.lists(st.integers(-n - 1, n), min_size=1, max_size=4))
        return np.array(listed, "i8").astype(draw(st.sampled_from(["i8", "i2", "u8"])))
    if kind == "mask":
        return np.array(
            draw(st.lists(st.booleans(), min_size=n, max_size=n + draw(st.integers(0, 9)) // 9)), bool
        )
    index = draw(inside | st.integers(-n - 2, n + 1))
    return draw(st.sampled_from([index, np.int16(index)]))


@st.composite
def keys(draw: st.DrawFn, kinds: set[str]) -> tuple[Any, ...]:
    """Draw a key of the kinds."""
    rank = len(SHAPE) if "full" in kinds else draw(st.integers(0, len(SHAPE)))
    if "masks" in kinds and draw(st.integers(0, 5)) == 0:  # a mask of several dimensions
        bits = draw(st.lists(st.booleans(), min_size=20, max_size=20))
        key: list[Any] = [np.array(bits).reshape(SHAPE[:2])]
    elif "ellipsis" in kinds and draw(st.booleans()):
        rank = min(rank, len(SHAPE) - 1) if kinds & {"list", "mask"} else rank  # see `positions`
        n_last = draw(st.integers(0, rank))
        key = [draw(terms(n, kinds)) for n in SHAPE[: rank - n_last]] + [...]
        key += [draw(terms(n, kinds)) for n in SHAPE[len(SHAPE) - n_last :]]
    else:
        key = [draw(terms(n, kinds)) for n in SHAPE[:rank]]
    if "newaxis" in kinds and draw(st.integers(0, 3)) == 0:
        key.insert(draw(st.integers(0, len(key))), None)
    if "extra" in kinds and draw(st.integers(0, 9)) == 0:
        key += [0] * (len(SHAPE) + 1 - rank)
    return tuple(key)


def of_numpy(values: np.ndarray[Any, Any], key: tuple[Any, ...], outer: bool | Literal["one"]) -> Any:
    """Return what NumPy gives; term by term if arrays select a product."""
    if not outer or (outer == "one" and sum(isinstance(t, np.ndarray) for t in key) > 1):
        return values[key]
    values[tuple(0 if isinstance(t, np.ndarray) else t for t in key)]  # raises for too many terms
    n_given = sum(t is not ... for t in key)
    at = next((i for i, t in enumerate(key) if t is ...), len(key))
    full = [*key[:at], *[slice(None)] * (values.ndim - n_given), *key[at + 1 :]]
    for axis in reversed(range(values.ndim)):
        values = values[(slice(None),) * axis + (full[axis],)]
    return values


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Return a function that opens the array of an entry, once, with its values."""

    @cache
    def open(name: str) -> Any:
        found = ENTRIES[name].open(tmp_path_factory.mktemp("keys"))
        if ENTRIES[name].write:
            found[...] = ENTRIES[name].values
        return found

    return open


@pytest.mark.parametrize("name", ENTRIES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_key_selects_what_it_does_in_numpy(
    name: str, opened: Callable[[str], Any], data: st.DataObject
) -> None:
    entry, array = ENTRIES[name], opened(name)
    kinds = set(entry.kinds.split())
    key = data.draw(keys(kinds))
    try:
        expected = np.asarray(of_numpy(entry.values, key, entry.outer))
    except IndexError:
        with pytest.raises(entry.refusal):
            array[key]
        return
    found = np.asarray(array[key])
    if "flat" in kinds:  # h5py has a shape of its own for regions
        found, expected = found.ravel(), expected.ravel()
    np.testing.assert_array_equal(found, expected, strict=found.ndim > 0 or found.dtype != object)


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.write])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_key_writes_where_it_does_in_numpy(
    name: str, opened: Callable[[str], Any], data: st.DataObject
) -> None:
    entry, array = ENTRIES[name], opened(name)
    key = data.draw(keys(set(entry.kinds.split()) - {"newaxis"}))
    numbers = np.arange(60).reshape(SHAPE)
    expected = entry.values.copy()
    new: Any = "new" if entry.values is TEXTS else -5
    try:
        expected.reshape(-1)[of_numpy(numbers, key, entry.outer)] = new
    except IndexError:
        with pytest.raises(entry.refusal):
            array[key] = new
        return
    try:
        array[key] = new
        assert np.asarray(array[...]).tolist() == expected.tolist()
    finally:
        array[...] = entry.values


JOINT = [name for name, entry in ENTRIES.items() if "list" in entry.kinds and entry.outer is not True]


@pytest.mark.parametrize("name", JOINT)
@pytest.mark.parametrize(
    "key", [(..., np.array([99]), np.array([], int)), (np.array([], int), np.array([-99]))], ids=repr
)
def test_beside_an_empty_array_no_other_is_checked(name: str, key: Any, opened: Callable[[str], Any]) -> None:
    entry, array = ENTRIES[name], opened(name)
    assert np.asarray(array[key]).size == entry.values[key].size == 0
    if entry.write:
        array[key] = "new" if entry.values is TEXTS else -5
        assert np.asarray(array[...]).tolist() == entry.values.tolist()


NO_INDEX = [1.5, (..., ...), [0.5], object(), b"a", 2**70]


@pytest.mark.parametrize("key", NO_INDEX, ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("name", ["positions", "dask", "hdmf zarr2", "hdmf n5 text"])
def test_what_is_no_index_is_refused(name: str, key: Any, opened: Callable[[str], Any]) -> None:
    with pytest.raises(IndexError):
        opened(name)[key]


@pytest.mark.parametrize("key", [True, np.array(True), None, [[0]], (np.ones((4, 5), bool),)])
def test_hdmf_takes_no_keys_that_h5py_does_not_take(key: Any, opened: Callable[[str], Any]) -> None:
    with pytest.raises(IndexError):
        opened("hdmf zarr2")[key]
