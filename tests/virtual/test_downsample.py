"""Downsampling against TensorStore and against plain Python, for every method, type and view."""

from fractions import Fraction

import numpy as np
import pytest
import tensorstore
from examples import examples
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from virtual_oracle import gather, transforms

import chunkwise as ts
from chunkwise.core.engine import downsample as execute

METHODS = ("stride", "mean", "min", "max", "median", "mode")
INTEGERS = ("int2", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NUMBERS = (
    "bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"
)  # fmt: skip


def _values(rng, name, shape):
    dtype = ts.dtype(name).memory_dtype
    few = rng.random() < 0.5
    if name == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if name in ("int2", "int4"):
        return np.asarray(rng.integers(-2, 2, shape).astype(np.int8).astype(dtype))
    if name in INTEGERS:
        info = np.iinfo(dtype)
        high = min(4, info.max) if few else info.max
        low = max(-3, info.min) if few else info.min
        return np.asarray(rng.integers(low, high, shape, dtype, endpoint=True))
    values = rng.standard_normal(shape) * 10
    values = np.round(values / 5) if few else values
    if "complex" in name:
        values = values + 1j * np.round(rng.standard_normal(shape))
    return np.asarray(values).astype(dtype)


@st.composite
def cases(draw, names=NUMBERS):
    rank = draw(st.integers(0, 3))
    lo = tuple(draw(st.integers(-9, 9)) for _ in range(rank))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    factors = [draw(st.integers(1, 5)) for _ in range(rank)]
    cells = [(a // f, -(-(a + n) // f)) for a, n, f in zip(lo, shape, factors, strict=True)]
    view = draw(transforms([a for a, _ in cells], [b for _, b in cells]))
    name = draw(st.sampled_from(names))
    values = _values(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), name, shape)
    return values, name, lo, factors, view


def _same(a, b, method, kind):
    """Equal bits, but for the sign of zero where that isn't specified."""
    if kind in ("float", "complex") and method in ("mean", "median", "mode"):
        a, b = a.astype(np.complex128), b.astype(np.complex128)
        return np.array_equal(a, b, equal_nan=True)
    if a.dtype != b.dtype:
        return False
    if a.dtype.name in ("int2", "int4"):  # their upper bits say nothing
        a, b = a.astype(np.int8), b.astype(np.int8)
    return a.tobytes() == b.tobytes()


def _store(library, values, name, lo):
    store = library.array(values, dtype=library.dtype(name))
    return store.translate_to[lo] if lo else store


@settings(max_examples=examples(500), deadline=None)
@given(cases(), st.sampled_from(METHODS[1:]), st.sampled_from([1, 64, 4 << 20]))
def test_like_tensorstore(case, method, piece):
    """The same bits as TensorStore, in one piece or in many, and a view shows what the whole does.

    TensorStore reads beyond its buffers for cells cut off on both sides, and for many views.
    """
    values, name, lo, factors, view = case
    for a, n, f in zip(lo, values.shape, factors, strict=True):
        assume(not (a % f and (a + n) % f and a // f == (a + n - 1) // f))
    ours = _store(ts, values, name, lo)
    try:
        theirs = tensorstore.downsample(_store(tensorstore, values, name, lo), factors, method)
    except ValueError as e:
        with pytest.raises(ValueError, match="does not support data type") as found:
            ts.downsample(ours, factors, method)
        assert str(found.value) == str(e)
        return
    ours = ts.downsample(ours, factors, method)
    assert str(ours.domain) == str(theirs.domain)
    expected = theirs.read().result()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "_PIECE_NBYTES", piece)
        patch.setattr(execute, "_LARGE_CELL", 10**9)
        whole = ours.read().result()
        part = ours[view].read().result()
    kind = ts.dtype(name).kind
    assert _same(whole, expected, method, kind)
    assert _same(part, np.array(gather(whole, ours.origin, view)), method, kind)


def _cells(values, lo, factors):
    """For each cell its position and the list of its elements, in C order."""
    found = {}
    for index in np.ndindex(*values.shape):
        cell = tuple((i + a) // f for i, a, f in zip(index, lo, factors, strict=True))
        found.setdefault(cell, []).append(values[index].item())
    return found


def _half_even(fraction):
    return round(fraction)  # Python rounds half to even, exactly


PLAIN = {
    "mean": lambda x: _half_even(Fraction(sum(x), len(x))),
    "min": min,
    "max": max,
    "median": lambda x: sorted(x)[(len(x) - 1) // 2],
    "mode": lambda x: max(sorted(set(x)), key=x.count),
}


@settings(max_examples=examples(300), deadline=None)
@given(cases(INTEGERS), st.sampled_from(sorted(PLAIN)))
def test_integers_are_exact(case, method):
    """Also cells that are cut off on both sides, and sums that need more than 64 bits."""
    values, name, lo, factors, _ = case
    store = ts.downsample(_store(ts, values, name, lo), factors, method)
    out = store.read().result()
    for cell, elements in _cells(values, lo, factors).items():
        at = tuple(c - o for c, o in zip(cell, store.origin, strict=True))
        assert int(out[at]) == PLAIN[method](elements)


@settings(max_examples=examples(150), deadline=None)
@given(cases(), st.data())
def test_stride(case, data):
    """The first element of a cell, without a look at the others, whatever the view."""
    values, name, lo, factors, _ = case
    store = ts.downsample(_store(ts, values, name, lo), factors, "stride")
    cells = [(-(-a // f), -(-(a + n) // f)) for a, n, f in zip(lo, values.shape, factors, strict=True)]
    assert store.domain.inclusive_min == tuple(a for a, _ in cells)
    assert store.domain.exclusive_max == tuple(b for _, b in cells)
    assume(all(a < b for a, b in cells))
    view = data.draw(transforms([a for a, _ in cells], [b for _, b in cells]))
    first = values[tuple(slice(a * f - o, None, f) for (a, _), f, o in zip(cells, factors, lo, strict=True))]
    expected = gather(first, store.origin, view)
    assert _same(store[view].read().result(), np.array(expected), "stride", "")


@pytest.mark.parametrize(
    "elements",
    [
        [np.nan, 1, 2],
        [1, np.nan, 2],
        [2, 1, np.nan],
        [np.nan] * 2,
        [0.0, -0.0],
        [-0.0, 0.0],
        [np.inf, -np.inf],
    ],
)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("method", ["mean", "min", "max"])
def test_numbers_that_are_none(elements, name, method):
    """NaN and signed zeros go the way they go in TensorStore."""
    values = np.array(elements).astype(ts.dtype(name).memory_dtype)
    ours = ts.downsample(ts.array(values), [len(values)], method).read().result()
    theirs = tensorstore.downsample(tensorstore.array(values), [len(values)], method).read().result()
    assert ours.astype(float).tobytes() == theirs.astype(float).tobytes() or np.isnan(ours).all()
    assert np.isnan(ours).any() == np.isnan(theirs).any()


@pytest.mark.parametrize("factor", [5, 40])
def test_nan_is_the_greatest_number(factor):
    """The median and the mode of a cell with NaN are those of numbers in which NaN comes last."""
    values = np.array([3.0, np.nan, 1.0, np.nan, 2.0] + [4.0] * (factor - 5))
    read = {m: ts.downsample(ts.array(values), [factor], m)[0].read().result() for m in ("median", "mode")}
    assert read["median"] == np.sort(values)[(factor - 1) // 2]
    assert np.isnan(read["mode"]) if factor == 5 else read["mode"] == 4


@pytest.mark.parametrize("large", [0, 10**9])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"])
def test_cells_of_only_nan(name, large, monkeypatch):
    """The least of no numbers is infinity, in types without it NaN, whether the cell is held whole or not."""
    monkeypatch.setattr(execute, "_PIECE_NBYTES", 1)
    monkeypatch.setattr(execute, "_LARGE_CELL", large)
    dtype = ts.dtype(name).memory_dtype
    base = ts.array(np.full(4, np.nan).astype(dtype))
    found = [ts.downsample(base, [4], m)[0].read().result() for m in ("min", "max")]
    with np.errstate(all="ignore"):
        wanted = np.array([np.inf, -np.inf]).astype(dtype)
    assert np.array_equal(np.array(found, float), wanted.astype(float), equal_nan=True)


SMALL_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float4_e2m1fn", "float8_e4m3b11fnuz")


@pytest.mark.parametrize("name", SMALL_FLOATS)
def test_small_floats(name):
    """Means are rounded once, and there is a least and a greatest, where TensorStore has 0 and NaN."""
    dtype = ts.dtype(name).memory_dtype
    values = np.array([1, 2, 2, 4, 0, 1, 1, 0.5]).astype(dtype)
    groups = values.astype(np.float32).reshape(2, 4)
    read = {
        m: ts.downsample(ts.array(values), [4], m).read().result() for m in ("mean", "min", "max", "median")
    }
    assert read["mean"].dtype == dtype
    assert read["mean"].tolist() == groups.mean(axis=1).astype(dtype).tolist()
    assert read["min"].tolist() == groups.min(axis=1).tolist()
    assert read["max"].tolist() == groups.max(axis=1).tolist()
    assert read["median"].tolist() == np.sort(groups)[:, 1].tolist()


OBJECTS = [
    ("json", [1, "a"]),
    ("json", [None, True, False, True]),
    ("json", [[1], {"a": 1}]),
    ("json", [{"b": 1}, {"a": 2}]),
    ("json", [1.0, 1]),
    ("json", [1, True]),
    ("json", [[2], [1, 5]]),
    ("json", [{}, [], "", 0, False, None]),
    ("json", [{"a": 1}, {"a": 1}, 0]),
    ("string", [b"\xff", b"a"]),
    ("string", [b"ab", b"b", b"b"]),
    ("ustring", ["\uffff", "\U0001f600"]),
]


@pytest.mark.parametrize(("name", "elements"), OBJECTS)
def test_mode_of_anything(name, elements):
    """Of texts and JSON values the most frequent, or the first in TensorStore's order."""
    values = np.empty(len(elements), object)
    for i, element in enumerate(elements):
        values[i] = element
    found = [
        library.downsample(library.array(values, dtype=library.dtype(name)), [len(values)], "mode")
        .read()
        .result()
        for library in (ts, tensorstore)
    ]
    assert found[0].tolist() == found[1].tolist()
    assert type(found[0][0]) is type(found[1][0])


def test_mode_of_bytes_and_times():
    """Types that TensorStore does not have are ordered as NumPy orders them."""
    raw = np.array([b"b", b"a", b"b", b"a"], "V1")
    assert ts.downsample(ts.array(raw), [4], "mode").read().result()[0].tobytes() == b"a"
    times = np.array(["2020", "2021", "2021"], "M8[D]")
    assert ts.downsample(ts.array(times), [3], "mode").read().result()[0] == times[1]
    with pytest.raises(ValueError, match='"mean" does not support data type "datetime64'):
        ts.downsample(ts.array(times), [3], "mean")


def test_memory_is_bounded():
    """A large read takes a few pieces besides its result, whatever the size of the base."""
    import tracemalloc

    base = ts.virtual_chunked(
        lambda domain, array, params: array.fill(7),
        dtype="uint8",
        shape=[4096, 4096, 16],
        chunk_layout=ts.ChunkLayout(chunk_shape=[256, 256, 16]),
    )
    store = ts.downsample(base, [64, 64, 16], "mean")
    tracemalloc.start()
    assert (store.read().result() == 7).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 << 20  # of 256 MiB


def test_follows_growth():
    """A read after a resolve sees what the base has grown by."""
    base = ts.open("memory://|zarr3", create=True, dtype="int32", shape=[4]).result()
    base[...] = 6
    store = ts.downsample(base, [3], "mean")
    grown = base.resize(exclusive_max=[6]).result()
    grown[4:] = 9
    assert store.resolve().result().read().result().tolist() == [6, 8]


def test_base_of_a_view():
    """``base`` is the region of the base that a view shows."""
    store = ts.downsample(ts.array(np.arange(10)), [3], "mean")
    assert store[1:3].base.read().result().tolist() == [3, 4, 5, 6, 7, 8]
    assert store[3].base.domain.shape == (1,)
    assert not store.writable
    with pytest.raises(ValueError, match="Destination does not support writing"):
        store.write(1).result()


@pytest.mark.parametrize("step", [-1, 2, -2])
def test_the_base_of_a_view_has_the_elements_of_each_cell(step):
    view = ts.downsample(ts.array(np.arange(12.0)), [3], "mean")[::step]
    base = view.base
    assert base.shape == (view.shape[0], 3)
    assert base.read().result().mean(axis=1).tolist() == view.read().result().tolist()


@pytest.mark.parametrize("step", [1, 2, 3, 5, -1, -2, -3])
@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_a_view_with_a_step_shows_what_the_whole_does(factor, step):
    """Cells of every size, whether beside slices or index arrays."""
    values = np.random.default_rng(0).random((6, 13))
    store = ts.downsample(ts.array(values).translate_to[0, 1], [3, factor], "mean")
    whole = store.read().result()
    for rows in (slice(None), 1, [1, 0, 1]):
        assert np.array_equal(store[rows, ::step].read().result(), whole[rows, ::step])


@settings(max_examples=examples(300), deadline=None)
@given(cases(), st.sampled_from(METHODS[1:]))
def test_large_cells(case, method):
    """A cell that is taken in part by part gives what one that is held at once gives."""
    values, name, lo, factors, view = case
    store = _store(ts, values, name, lo)
    try:
        store = ts.downsample(store, factors, method)
    except ValueError:
        reject()
    whole = store[view].read().result()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "_PIECE_NBYTES", 1)
        patch.setattr(execute, "_LARGE_CELL", 0)
        parts = store[view].read().result()
    if whole.dtype.kind in "fc" or name == "bfloat16":
        tolerance = 0.02 if ts.dtype(name).itemsize == 2 else 1e-5
        a, b = whole.astype(np.complex128), parts.astype(np.complex128)
        assert np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        assert whole.dtype == parts.dtype
        assert _same(whole, parts, method, "")


def test_one_cell_of_everything():
    """A cell of 256 MiB takes a few pieces of memory."""
    import tracemalloc

    def fill(domain, array, params):
        array[...] = domain.inclusive_min[0] // 256

    layout = ts.ChunkLayout(chunk_shape=[256, 1024])
    base = ts.virtual_chunked(fill, dtype="int16", shape=[16384, 8192], chunk_layout=layout)
    tracemalloc.start()
    found = {
        m: ts.downsample(base, base.shape, m).read().result().item()
        for m in ("mean", "max", "median", "mode")
    }
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == {"mean": 32, "max": 63, "median": 31, "mode": 0}
    assert peak < 40 << 20


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float64"])
@pytest.mark.parametrize("method", ["median", "mode"])
def test_one_cell_of_wide_elements(dtype, method):
    """The median and the mode of a cell of 32 MiB or more are found without holding it."""
    import tracemalloc

    def fill(domain, array, params):
        rows = np.arange(*domain[0].inclusive_min + np.array([0, len(domain[0])]))
        array[...] = (rows % 91)[:, None] * 1000.0 - (0 if dtype == "uint64" else 40_000)

    layout = ts.ChunkLayout(chunk_shape=[128, 1024])
    base = ts.virtual_chunked(fill, dtype=dtype, shape=[4096, 2048], chunk_layout=layout)
    tracemalloc.start()
    found = ts.downsample(base, base.shape, method).read().result().item()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = np.arange(4096) % 91 * 1000 - (0 if dtype == "uint64" else 40_000)
    expected = np.sort(rows)[2047] if method == "median" else rows[0]
    assert found == expected
    assert peak < 16 << 20


@pytest.mark.each_once
@pytest.mark.parametrize("name", [name for name in INTEGERS if name not in ("int2", "int4")])
@pytest.mark.parametrize("factors", [[2, 2], [1, 3], [4, 1]], ids=str)
def test_sums_near_the_bounds_of_a_type(name, factors):
    """Sums are made in the narrowest type for the values that there are, which is chosen with care."""
    dtype = ts.dtype(name).memory_dtype
    n = int(np.prod(factors))
    for bits in range(8, 8 * dtype.itemsize + 1):
        for near in (-2, -1, 0, 1, 2):
            largest = (2**bits - n) // n + near
            if largest > np.iinfo(dtype).max:
                continue
            values = np.full((4, 12), largest, dtype)
            values[::2, 1::3] -= dtype.type(1)
            if dtype.kind == "i":
                values[2:] *= dtype.type(-1)
            cells = values.reshape(4 // factors[0], factors[0], 12 // factors[1], factors[1])
            expected = [
                [PLAIN["mean"](cells[i, :, j].reshape(-1).tolist()) for j in range(cells.shape[2])]
                for i in range(cells.shape[0])
            ]
            assert ts.downsample(ts.array(values), factors, "mean").read().result().tolist() == expected


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64"])
def test_sums_of_cells_whose_first_element_is_positive(name):
    """What the first elements say about the signs is not believed of the others."""
    dtype = ts.dtype(name).memory_dtype
    for bits in range(1, 8 * dtype.itemsize):
        cell = [2**bits - 1, -(2**bits), -(2**bits), -(2**bits)]
        values = np.array([cell, cell], dtype)
        out = ts.downsample(ts.array(values), [1, 4], "mean").read().result()
        assert out.tolist() == [[PLAIN["mean"](cell)]] * 2


@pytest.mark.parametrize("codecs", ["raw", "zstd"])
@pytest.mark.parametrize("method", ["mean", "max", "median", "mode"])
def test_files(tmp_path, method, codecs, monkeypatch):
    """A base in local files, with a missing chunk, gives what the same elements in memory give."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(execute, "_PIECE_NBYTES", 4096)
    values = rng.integers(0, 999, (37, 41, 23)).astype("uint16")
    chain = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if codecs != "raw":
        chain.append({"name": codecs, "configuration": {"level": 1}})
    metadata = {
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8, 16, 12]}},
        "codecs": chain,
    }
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"}, "metadata": metadata}
    store = ts.open(spec, create=True, dtype="uint16", shape=values.shape, fill_value=7).result()
    store[...] = values
    (tmp_path / "a" / "c" / "1" / "0" / "1").unlink()
    values[8:16, 0:16, 12:23] = 7
    views = [np.s_[...], np.s_[3:35, 1:, 5:21], np.s_[12], np.s_[::-1, 5:9]]
    for view in views:
        seen = store[view].translate_to[tuple([0] * store[view].rank)]
        factors = [2, 3, 2][: seen.rank]
        ours = ts.downsample(seen, factors, method)
        plain = ts.downsample(ts.array(np.ascontiguousarray(values[view])), factors, method)
        assert np.array_equal(ours.read().result(), plain.read().result()), view
        assert np.array_equal(ours[1:7].read().result(), plain[1:7].read().result()), view


def test_files_that_change(tmp_path):
    """A base that has shrunk, or is gone, is an error; one that may not lack chunks is read so."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/a/"}}
    store = ts.open(spec, create=True, dtype="uint16", shape=[8, 8]).result()
    assert ts.downsample(store, [2, 2], "mean").read().result().tolist() == [[0] * 4] * 4
    strict = ts.open({**spec, "fill_missing_data_reads": False}).result()
    with pytest.raises(ValueError, match=r"chunk \{0, 0\} stored at .* is missing"):
        ts.downsample(strict, [2, 2], "mean").read().result()
    down = ts.downsample(
        ts.open({**spec, "recheck_cached_metadata": True}).result()[0:8, 0:8], [2, 2], "mean"
    )
    ts.open(spec).result().resize(exclusive_max=[4, 8]).result()
    with pytest.raises((ValueError, IndexError)):
        down.read().result()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_means_of_large_cells_are_rounded_as_those_of_small_ones(dtype):
    """The elements of a cell are added one after the other, as TensorStore does."""
    values = np.random.default_rng(0).random((3, 90)).astype(dtype)
    found = [
        library.downsample(library.array(values), [3, 45], "mean").read().result()
        for library in (ts, tensorstore)
    ]
    assert found[0].tobytes() == found[1].tobytes()
