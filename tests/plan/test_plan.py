"""Executing a plan equals NumPy; each touched chunk is visited once, and no other."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.grid import RectilinearGrid, RegularGrid
from chunkwise.core.plan.partition import _group
from chunkwise.core.plan.plan import chunk_order, extents, plan_read, plan_write, selections, split, wholes


class Map(NamedTuple):
    offset: int = 0
    stride: int = 1
    input_dimension: int | None = None
    index_array: np.ndarray | None = None


class Request(NamedTuple):
    input_inclusive_min: tuple[int, ...]
    input_shape: tuple[int, ...]
    output: tuple[Map, ...]


KEYS = KeyEncoding("a/c/", "/", "a/c")


def coordinates(request: Request) -> list[np.ndarray]:
    """The storage coordinate of every element of a request, computed without any plan."""
    grids = np.meshgrid(
        *[
            np.arange(lo, lo + n)
            for lo, n in zip(request.input_inclusive_min, request.input_shape, strict=True)
        ],
        indexing="ij",
    )
    out = []
    for m in request.output:
        if m.index_array is not None:
            value = m.offset + m.stride * m.index_array
        elif m.input_dimension is not None:
            value = m.offset + m.stride * grids[m.input_dimension]
        else:
            value = np.array(m.offset)
        out.append(np.broadcast_to(value, request.input_shape))
    return out


@st.composite
def requests(draw: st.DrawFn, shape: tuple[int, ...]) -> Request:
    """A transform into an array of `shape`, with every kind of output index map."""
    n_inputs = draw(st.integers(0, 4))
    origin = tuple(draw(st.integers(-5, 5)) for _ in range(n_inputs))
    sizes = [draw(st.integers(0, 6)) for _ in range(n_inputs)]
    maps: list[Any] = []
    for extent in shape:
        kind = draw(st.sampled_from(["constant", "dimension", "dimension", "array"]))
        if kind == "constant" or n_inputs == 0 or (kind == "array" and 0 in sizes):
            maps.append(("constant", draw(st.integers(0, extent - 1))))
        elif kind == "dimension":
            d = draw(st.integers(0, n_inputs - 1))
            stride = draw(st.sampled_from([1, 1, 1, -1, 2, 3, -2, 7]))
            sizes[d] = min(sizes[d], (extent - 1) // abs(stride) + 1)
            maps.append(("dimension", d, stride, extent))
        else:
            maps.append(
                ("array", draw(st.lists(st.booleans(), min_size=n_inputs, max_size=n_inputs)), extent)
            )
    out = []
    for m in maps:
        if m[0] == "constant":
            out.append(Map(m[1]))
        elif m[0] == "dimension":
            _, d, stride, extent = m
            reach = (max(sizes[d], 1) - 1) * abs(stride)
            low = draw(st.integers(0, extent - 1 - reach))
            first = low if stride > 0 else low + reach
            out.append(Map(first - stride * origin[d], stride, d))
        else:
            _, depends, extent = m
            if 0 in sizes:
                out.append(Map(0))
                continue
            form = tuple(n if yes else 1 for n, yes in zip(sizes, depends, strict=True))
            n = int(np.prod(form))
            values = draw(st.lists(st.integers(0, extent - 1), min_size=n, max_size=n))
            offset, stride = draw(st.sampled_from([(0, 1), (4, -1), (-7, 1)]))
            array = np.array(values, np.int64).reshape(form)
            out.append(Map(offset, stride, None, (array - offset) // stride))
    return Request(origin, tuple(sizes), tuple(out))


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Any, Request]:
    rank = draw(st.integers(0, 4))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    if draw(st.booleans()):
        grid: Any = RegularGrid(tuple(draw(st.integers(1, 11)) for _ in range(rank)))
    else:
        sizes = []
        for extent in shape:
            edges = [draw(st.integers(1, 4)) for _ in range(9)]
            sizes.append(draw(st.sampled_from([tuple(edges), (*edges, extent), 3, ((2, 5), (1, 9))])))
        grid = RectilinearGrid.of(sizes)
    return shape, grid, draw(requests(shape))


def cell_bounds(grid: Any, cell: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(*grid.bounds(d, c)) for d, c in enumerate(cell))


def touched(grid: Any, where: list[np.ndarray], shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    if 0 in shape:
        return set()
    columns = [[grid.cell(d, int(i))[0] for i in w.ravel()] for d, w in enumerate(where)]
    return set(zip(*columns, strict=True)) if columns else {()}


def visit(plan: Any, n_parts: int) -> list[tuple[Any, ...]]:
    """Return the content of a plan, taken part by part as workers do."""
    out: list[tuple[Any, ...]] = []
    for axes in split(plan.axes, n_parts):
        part = plan._replace(axes=axes)
        chunk, where = selections(axes)
        out += zip(part.cells(), part.keys(KEYS), extents(axes), chunk, where, wholes(axes), strict=True)
    return out


@settings(max_examples=examples(400), deadline=None)
@given(cases(), st.integers(1, 9))
def test_reading_by_plan_equals_numpy(case: Any, n_parts: int) -> None:
    shape, grid, request = case
    where = coordinates(request)
    padded = tuple(grid.bounds(d, grid.cell(d, n - 1)[0])[1] for d, n in enumerate(shape))
    stored = np.arange(np.prod(padded)).reshape(padded) + 1
    expected = stored[tuple(where)] if shape else np.broadcast_to(stored, request.input_shape)

    plan = plan_read(request, grid)
    out = np.zeros(request.input_shape, stored.dtype)
    view = plan.layout.view(out) if plan.n_chunks else None
    visits = visit(plan, n_parts)
    for cell, key, extent, chunk_at, out_at, whole in visits:
        chunk = stored[(*cell_bounds(grid, cell), ...)]
        assert key == KEYS.key(cell)
        assert chunk.shape == extent
        ordered = chunk.transpose(chunk_order(plan.axes))
        view[out_at] = ordered[chunk_at]
        if whole:
            assert np.shares_memory(view[out_at], out)
            np.testing.assert_array_equal(view[out_at], chunk)
    if plan.n_chunks:
        plan.layout.broadcast(out)
    np.testing.assert_array_equal(out, expected)

    cells = [v[0] for v in visits]
    assert len(cells) == len(set(cells)) == plan.n_chunks
    assert set(cells) == touched(grid, where, request.input_shape)


@settings(max_examples=examples(400), deadline=None)
@given(cases(), st.integers(1, 9))
def test_writing_by_plan_equals_numpy(case: Any, n_parts: int) -> None:
    shape, grid, request = case
    where = coordinates(request)
    padded = tuple(grid.bounds(d, grid.cell(d, n - 1)[0])[1] for d, n in enumerate(shape))
    stored = np.full(padded, -1)
    source = np.arange(np.prod(request.input_shape)).reshape(request.input_shape)
    plan = plan_write(request, grid)
    if 0 not in request.input_shape:
        view = plan.layout.view(source, last=True)
    visits = visit(plan, n_parts)
    for cell, _, _, chunk_at, out_at, whole in visits:
        chunk = stored[(*cell_bounds(grid, cell), ...)]
        assert (chunk == -1).all()  # visited once
        chunk.transpose(chunk_order(plan.axes))[chunk_at] = view[out_at]
        assert whole == bool((chunk != -1).all())

    expected = np.full(padded, -1)
    points = [w.ravel() for w in where]
    for n in range(source.size):  # in order: the last value for an element counts
        expected[tuple(p[n] for p in points)] = source.ravel()[n]
    np.testing.assert_array_equal(stored, expected)
    assert {v[0] for v in visits} == touched(grid, where, request.input_shape)


def test_a_slice_of_a_large_grid_is_planned_per_dimension() -> None:
    request = Request((0, 0, 0), (2**20,) * 3, tuple(Map(0, 1, d) for d in range(3)))
    plan = plan_read(request, RegularGrid((2**10,) * 3))
    assert [axis.n_entries for axis in plan.axes] == [2**10] * 3
    assert plan.n_chunks == 2**30


def test_coordinates_near_the_largest_integer() -> None:
    top = 2**62 - 8
    array = np.array([top, 0, top + 1, 5], np.int64)
    request = Request((0,), (4,), (Map(0, 1, None, array), Map(3, 1, None, array)))
    plan = plan_read(request, RegularGrid((4, 4)))
    assert sorted(plan.cells()) == [(0, 0), (1, 2), (top // 4, top // 4), (top // 4, (top + 4) // 4)]


def test_a_stride_larger_than_the_chunk_skips_chunks() -> None:
    plan = plan_read(Request((0,), (4,), (Map(1, 7, 0),)), RegularGrid((3,)))
    assert list(plan.keys(KEYS)) == ["a/c/0", "a/c/2", "a/c/5", "a/c/7"]


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 100])
def test_parts_keep_the_order_and_are_of_similar_size(n_parts: int) -> None:
    request = Request((0, 0, 0), (3, 5, 16), tuple(Map(0, 1, d) for d in range(3)))
    plan = plan_read(request, RegularGrid((1, 1, 1)))
    parts = split(plan.axes, n_parts)
    assert [c for axes in parts for c in plan._replace(axes=axes).cells()] == list(
        product(range(3), range(5), range(16))
    )
    sizes = [plan._replace(axes=axes).n_chunks for axes in parts]
    assert len(parts) >= n_parts
    assert max(sizes) <= 3 * min(sizes)


@pytest.mark.parametrize("distance", [1, 2**31, 2**61])
@pytest.mark.parametrize("sizes", [(4,), (3, 4, 2), (257, 256)])
def test_equal_cells_come_together(sizes: tuple[int, ...], distance: int) -> None:
    """Cells that lie far apart are numbered by what there is, and not more than 16 bits are left out."""
    cells = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij")).reshape(len(sizes), -1)
    cells = np.random.default_rng(0).permutation(np.concatenate([cells, cells[:, ::3]], axis=1), axis=1)
    far = [along * (distance if along.max() < 4 else min(distance, 2**50)) for along in cells]
    order, starts = _group(far)
    ordered = cells[:, order]
    assert sorted(order) == list(range(cells.shape[1]))
    changes = np.flatnonzero((ordered[:, 1:] != ordered[:, :-1]).any(axis=0)) + 1
    assert starts.tolist() == [0, *changes]
    assert len(starts) == np.prod(sizes)
