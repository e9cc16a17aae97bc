"""Chunk grids: where cells are, and their JSON."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.base.catalogue import grids
from chunkwise.core.grid import OffsetGrid, RectilinearGrid, RegularGrid
from chunkwise.errors import OutOfRangeError, SpecError, UnsupportedError

size = st.integers(1, 6)
entries = st.lists(size | st.tuples(size, size), min_size=1, max_size=5).map(tuple)


def expanded(sizes: Any, stop: int) -> list[int]:
    if isinstance(sizes, int):
        return [sizes] * -(-stop // sizes)
    return [s for entry in sizes for s in ([entry] if isinstance(entry, int) else [entry[0]] * entry[1])]


@given(size | entries, st.sampled_from([RegularGrid, RectilinearGrid]))
def test_cells_are_where_their_sizes_say(sizes: Any, kind: Any) -> None:
    if kind is RegularGrid:
        sizes = sizes if isinstance(sizes, int) else 3
        grid: Any = RegularGrid((sizes,))
    else:
        grid = RectilinearGrid.of([sizes])
    stops = list(accumulate(expanded(sizes, 40)))
    starts = [0, *stops[:-1]]
    owner = [cell for cell, (a, b) in enumerate(zip(starts, stops, strict=True)) for _ in range(a, b)]
    for index, cell in enumerate(owner):
        assert grid.cell(0, index) == (cell, starts[cell], stops[cell])
        assert grid.bounds(0, cell) == (starts[cell], stops[cell])
    np.testing.assert_array_equal(grid.cells(0, np.arange(len(owner))), owner)
    for n in range(len(owner) + 1):
        assert grid.n_cells(0, n) == len(set(owner[:n]))


def test_indices_beyond_the_listed_cells_are_errors() -> None:
    grid = RectilinearGrid.of([5, (2, (3, 2))])
    assert grid.cell(0, 10**15) == (2 * 10**14, 10**15, 10**15 + 5)
    assert grid.cell(1, 7) == (2, 5, 8)
    for index in (8, -1):
        with pytest.raises(OutOfRangeError, match=f"Index {index} .* ends at 8 in dimension 1"):
            grid.cell(1, index)
        with pytest.raises(OutOfRangeError, match=f"Index {index} .* ends at 8 in dimension 1"):
            grid.cells(1, np.array([0, index]))
    with pytest.raises(OutOfRangeError, match=r"Cell 3 .* has 3 along dimension 1"):
        grid.bounds(1, 3)


def test_the_cells_have_to_reach_the_end_of_the_array() -> None:
    def create(shape: list[int], name: str, **configuration: Any) -> ts.TensorStore:
        grid = {"name": name, "configuration": configuration}
        metadata = {"shape": shape, "data_type": "uint8", "chunk_grid": grid}
        spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
        return ts.open(spec, create=True).result()

    rectilinear = {"name": "rectilinear", "kind": "inline", "chunk_shapes": [5, [2, [3, 2]]]}
    for shape in ([100, 8], [100, 3]):
        assert create(shape, **rectilinear).shape == tuple(shape)
    with pytest.raises(ValueError, match="Index 8 is outside the chunk grid, which ends at 8 in dimension 1"):
        create([100, 9], **rectilinear)
    for grid in (rectilinear, {"name": "regular", "chunk_shape": [2, 3]}):
        with pytest.raises(ValueError, match="length 2 but should have length 1"):
            create([3], **grid)


def test_a_count_from_outside_costs_no_memory() -> None:
    grid = RectilinearGrid.parse({"kind": "inline", "chunk_shapes": [[[2, 2**40], 7]]})
    assert grid.cell(0, 2**41 + 3) == (2**40, 2**41, 2**41 + 7)


@given(st.lists(size | entries, max_size=4))
def test_rectilinear_json_comes_back(shapes: list[Any]) -> None:
    grid = RectilinearGrid.of(shapes)
    written = grid.to_json()
    assert json.loads(json.dumps(written)) == written
    assert RectilinearGrid.parse(written) == grid
    assert RectilinearGrid.parse(written).to_json() == written
    assert hash(grid) == hash(RectilinearGrid.of(shapes))


def test_the_registered_examples() -> None:
    """Zarr extensions, chunk grid "rectilinear", "Example": all expand to cover 6 elements."""
    shapes = [4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]
    grid = grids.find("rectilinear", "zarr3").parse({"kind": "inline", "chunk_shapes": shapes})
    assert [[grid.bounds(d, c) for c in range(grid.n_cells(d, 6))] for d in range(5)] == [
        [(0, 4), (4, 8)],
        [(0, 1), (1, 3), (3, 6)],
        [(0, 4), (4, 8)],
        [(0, 1), (1, 2), (2, 3), (3, 6)],
        [(0, 4), (4, 8)],
    ]
    assert grid.chunk_shape is None
    assert grid.rank == 5


def test_regular_json() -> None:
    grid = grids.find("regular", "zarr3").parse({"chunk_shape": [3, 4]})
    assert grid == RegularGrid((3, 4))
    assert grid.to_json() == {"chunk_shape": [3, 4]}
    assert RegularGrid.parse({"chunk_shape": []}).rank == 0


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (RegularGrid, {}, 'Error parsing object member "chunk_shape": Expected array, but member is missing'),
        (RegularGrid, {"chunk_shape": [0]}, "position 0: Expected integer in the range .*, but received: 0"),
        (RegularGrid, {"chunk_shape": [1], "x": 1}, 'extra members: "x"'),
        (RectilinearGrid, {"chunk_shapes": [1]}, '"kind"'),
        (RectilinearGrid, {"kind": "file", "chunk_shapes": [1]}, 'Expected one of "inline", .*: "file"'),
        (RectilinearGrid, {"kind": "inline", "chunk_shapes": [[1, [2, 0]]]}, "received: 0"),
        (RectilinearGrid, {"kind": "inline", "chunk_shapes": [[[1, 2, 3]]]}, "length 3 .* length 2"),
        (RectilinearGrid, {"kind": "inline", "chunk_shapes": [-1]}, "received: -1"),
        (RectilinearGrid, {"kind": "inline", "chunk_shapes": [1], "x": 1}, 'extra members: "x"'),
    ],
)
def test_wrong_json_is_named(kind: Any, text: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        kind.parse(text)


def test_encoded_chunk_shapes_are_refused() -> None:
    written = {"kind": "inline", "chunk_shapes": [[2, 1]], "encoded_chunk_shapes": [2]}
    with pytest.raises(UnsupportedError, match="encoded_chunk_shapes"):
        RectilinearGrid.parse(written)


@pytest.mark.parametrize(
    "shapes", [[[[3, 2**62], [3, 2**62]]], [[2, [3, 2**62], 5]], [[2**63 - 1, 1]], [[1] * 3, [[2**62, 2], 1]]]
)
def test_cells_that_end_beyond_every_array_are_refused(shapes: list[Any]) -> None:
    """Index arrays are looked up in starts of 64 bits."""
    with pytest.raises(SpecError, match=r'"chunk_shapes": .*add up to'):
        RectilinearGrid.parse({"kind": "inline", "chunk_shapes": shapes})


def test_cells_may_end_where_the_longest_array_does() -> None:
    for shapes in ([[2**63 - 1]], [[[1, 2**63 - 1]]]):
        assert RectilinearGrid.parse({"kind": "inline", "chunk_shapes": shapes}).n_cells(0, 1) == 1


def test_a_grid_that_reaches_further_has_one_more_cell_where_it_ended() -> None:
    grid = RectilinearGrid.of([(2, 3), 4, ((2, 3),)])
    assert grid.reaching((5, 9, 6)) == grid
    assert grid.reaching((9, 9, 7)) == RectilinearGrid.of([(2, 3, 4), 4, ((2, 3), 1)])


few = st.lists(st.integers(1, 2) | st.tuples(st.integers(1, 2), st.integers(1, 2)), max_size=4).map(tuple)


@given(few, few)
@example((2, 2, 1), ((2, 2), 1))
def test_grids_with_equal_cells_are_written_in_one_form(sizes: Any, other: Any) -> None:
    forms = [RectilinearGrid.of([s]).canonical_shapes for s in (sizes, other)]
    assert [expanded(form[0], 0) for form in forms] == [expanded(sizes, 0), expanded(other, 0)]
    assert (forms[0] == forms[1]) == (expanded(sizes, 0) == expanded(other, 0))
    assert RectilinearGrid.of([3]).canonical_shapes == (3,)


@given(few, few)
@example((2, 2, 2), ((2, 2),))
@example(((2, 3),), (2, 2))
def test_a_grid_continues_another_whose_cells_it_begins_with(sizes: Any, other: Any) -> None:
    grid, shorter = RectilinearGrid.of([sizes]), RectilinearGrid.of([other])
    begins = expanded(sizes, 0)[: len(expanded(other, 0))] == expanded(other, 0)
    assert grid.continues(shorter) == begins
    assert RectilinearGrid.of([4, sizes]).continues(RectilinearGrid.of([4, other])) == begins
    assert not RectilinearGrid.of([3, sizes]).continues(RectilinearGrid.of([4, other]))
    assert not RectilinearGrid.of([sizes, 4]).continues(shorter)


@given(
    st.integers(-9, 9),
    st.integers(0, 8),
    st.integers(1, 5),
    st.integers(0, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
)
def test_cells_of_a_domain_that_begins_elsewhere(lower: int, before: int, size: int, sizes: Any) -> None:
    """The origin of the cells lies up to `before` below the lower bound; cells end at the bounds."""
    n, part = sizes
    origin = lower - before % size
    grid = OffsetGrid(origin=(origin,), shape=(size,), lower=(lower,), upper=(lower + n,))
    cells = [(index - origin) // size for index in range(lower, lower + n)]
    assert [grid.cell(0, index)[0] for index in range(lower, lower + n)] == cells
    assert grid.cells(0, np.arange(lower, lower + n)).tolist() == cells
    assert grid.n_cells(0, part) == len(set(cells[:part]))
    for cell in set(cells):
        start, stop = grid.bounds(0, cell)
        assert list(range(start, stop)) == [lower + i for i, c in enumerate(cells) if c == cell]
