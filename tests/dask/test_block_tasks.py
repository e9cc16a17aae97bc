"""Tasks of many blocks: what they write, how few they are, and what is left to dask."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.dask.box_writes import Boxes
from chunkwise.errors import InvalidArgumentError

VALUES = np.arange(60 * 50, dtype="i4").reshape(60, 50)


def in_memory(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str = "i4") -> cw.TensorStore:
    layout = cw.ChunkLayout(chunk_shape=list(chunks))
    return cw.open(
        "memory://|zarr3", create=True, dtype=dtype, shape=shape, chunk_layout=layout, context=cw.Context()
    ).result()


@pytest.fixture
def source() -> Any:
    array = in_memory((60, 50), (3, 5))
    array.write(VALUES).result()
    return cw.to_dask(array)


def n_tasks(source: Any, target: cw.TensorStore, **options: Any) -> int:
    """Return how many tasks a scheduler gets."""
    (graph,) = dask.optimize(cw.store(source, target, compute=False, **options))
    return len(dict(graph.__dask_graph__()))


LOCAL: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "as it is": (lambda x: x, lambda a: a),
    "elementwise": (lambda x: (x + 1) * x - 3, lambda a: (a + 1) * a - 3),
    "another type": (lambda x: (x / 2).astype("i4"), lambda a: (a / 2).astype("i4")),
    "transposed": (lambda x: x.T + 1, lambda a: a.T + 1),
    "of its place": (
        lambda x: x.map_blocks(lambda b, block_id: b + block_id[0], dtype="i4"),
        lambda a: a + np.arange(60)[:, None] // 3,
    ),
    "a constant": (lambda x: x + da.ones(x.shape, dtype="i4", chunks=x.chunks), lambda a: a + 1),
}

NOT_LOCAL: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "a part": (lambda x: x[3:41, ::2], lambda a: a[3:41, ::2]),
    "an overlap": (
        lambda x: x.map_overlap(lambda b: b, depth=1, boundary="none", dtype="i4"),
        lambda a: a,
    ),
    "a reduction": (lambda x: x - x.max(axis=0), lambda a: a - a.max(axis=0)),
    "a row for all": (lambda x: x + x[0], lambda a: a + a[0]),
    "divided anew": (lambda x: x.rechunk((7, 11)), lambda a: a),
    "both ways": (lambda x: x[:50] + x[:50].T, lambda a: a[:50] + a[:50].T),
    "in memory": (lambda x: da.from_array(VALUES, chunks=(4, 7)), lambda a: a),
}


@pytest.mark.each_once
@pytest.mark.parametrize("name", [*LOCAL, *NOT_LOCAL])
@pytest.mark.parametrize("chunks", [(6, 5), (7, 8)])
@pytest.mark.parametrize("rechunk", [False, True])
def test_what_is_stored_is_what_dask_computes(
    source: Any, name: str, chunks: tuple[int, int], rechunk: bool
) -> None:
    compute, expected = (LOCAL | NOT_LOCAL)[name]
    lazy = compute(source)
    target = in_memory(lazy.shape, chunks)
    cw.store(lazy, target, rechunk=rechunk, scheduler="sync")
    np.testing.assert_array_equal(target, expected(VALUES))


@pytest.mark.parametrize("name", LOCAL)
def test_a_task_covers_many_blocks(source: Any, name: str) -> None:
    lazy = LOCAL[name][0](source)
    assert lazy.npartitions == 200
    target = in_memory(lazy.shape, (6, 10) if lazy.shape == (60, 50) else (10, 6))
    assert n_tasks(lazy, target) <= 8


def test_a_task_that_is_left_to_dask_writes_whole_chunks(source: Any) -> None:
    target = in_memory((60, 50), (6, 10))
    assert n_tasks(source + source[0], target) >= 50
    lazy = (source + source[0]).rechunk((3, 10))
    np.testing.assert_array_equal(cw.store(lazy, target, return_stored=True), VALUES + VALUES[0])


def test_what_several_arrays_need_is_computed_once(source: Any) -> None:
    calls: list[int] = []

    def count(block: Any) -> Any:
        calls.append(1)
        return block

    base = source.map_blocks(count, dtype="i4", meta=np.empty((0, 0), "i4"))
    targets = [in_memory((60, 50), (6, 10)) for _ in range(2)]
    cw.store([base + 1, base * 2], targets, scheduler="sync")
    assert len(calls) == 200
    np.testing.assert_array_equal(targets[0], VALUES + 1)
    np.testing.assert_array_equal(targets[1], VALUES * 2)


def test_layers_that_say_where_they_run_keep_their_tasks(source: Any) -> None:
    with dask.annotate(workers=["one"]):
        lazy = source + 1
    assert n_tasks(lazy, in_memory((60, 50), (6, 10))) >= 200


@pytest.mark.parametrize("compute", [False, True])
def test_what_is_stored_is_given_as_it_was_divided(source: Any, compute: bool) -> None:
    target = in_memory((60, 50), (6, 10))
    stored = cw.store(source + 1, target, return_stored=True, compute=compute)
    assert stored.chunks == source.chunks
    np.testing.assert_array_equal(stored[4:9, 17], (VALUES + 1)[4:9, 17])
    assert np.array_equal(target[4, 17], VALUES[4, 17] + 1)


def test_a_block_of_another_shape_is_an_error(source: Any) -> None:
    lazy = source.map_blocks(lambda block: block[:1], dtype="i4", meta=np.empty((0, 0), "i4"))
    with pytest.raises(InvalidArgumentError, match=r"Block \[0, 0\] .* of shape \[1, 5\], not \[3, 5\]"):
        cw.store(lazy, in_memory((60, 50), (6, 10)), scheduler="sync")


def test_many_chunks_are_a_layer_that_nobody_has_materialised() -> None:
    array = in_memory((1000, 200, 10), (1, 1, 10), "u1")
    lazy = cw.to_dask(array) + 1
    target = in_memory((1000, 200, 10), (1, 1, 10), "u1")
    assert lazy.npartitions == 200_000
    assert n_tasks(lazy, target) < 2000
    for layer in lazy.dask.layers.values():
        assert len(layer) == 1 or not layer.is_materialized()


def test_a_task_takes_a_bounded_amount_of_memory() -> None:
    array = in_memory((1 << 14, 1 << 14), (256, 256), "f8")  # 2 GiB
    assert n_tasks(cw.to_dask(array), in_memory((1 << 14, 1 << 14), (256, 256), "f8")) >= 64


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(sizes, st.one_of(st.none(), sizes)), max_size=3), st.integers(0, 500))
def test_boxes_cover_each_block_once(dims: list[tuple[list[int], list[int] | None]], wanted: int) -> None:
    chunks = [along for along, _ in dims]
    aligned = [None if target is None else _until(target, sum(along)) for along, target in dims]
    boxes = Boxes(chunks, aligned, 2, wanted)
    seen = {}
    for number in range(boxes.n_boxes):
        for block in product(*boxes.blocks(number)):
            assert block not in seen and boxes.number_of(block) == number
            seen[block] = number
    assert len(seen) == np.prod([len(along) for along in chunks], dtype=int)
    for number in range(boxes.n_boxes):
        along = boxes.blocks(number)
        place = boxes.slices([n.start for n in along], [n.stop for n in along])
        for cut, target in zip(place, aligned, strict=True):
            if target is not None:
                assert {cut.start, cut.stop} <= {0, *np.cumsum(target).tolist()}


def _until(sizes: list[int], end: int) -> list[int]:
    """Return sizes, repeated, that end at `end`."""
    out: list[int] = []
    while sum(out) < end:
        out.append(min(sizes[len(out) % len(sizes)], end - sum(out)))
    return out
