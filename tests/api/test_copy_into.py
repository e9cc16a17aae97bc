"""``TensorStore.write(TensorStore)``: alignment, conversion and blocks, as TensorStore has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorstore as ts
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.api import copy as copy_module
from chunkwise.core.api.copy import BlockCopy, copy_into


def store(
    module: Any,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: str = "uint16",
    labels: Any = None,
    driver: str = "zarr3",
) -> Any:
    spec = {"driver": driver, "kvstore": {"driver": "memory"}}
    domain = module.IndexDomain(shape=shape, labels=labels)
    layout = module.ChunkLayout(chunk_shape=chunks)
    context = module.Context()
    dtype = getattr(module, dtype)
    return module.open(
        spec, create=True, dtype=dtype, domain=domain, chunk_layout=layout, context=context
    ).result()


def filled(module: Any, shape: tuple[int, ...], chunks: tuple[int, ...], **options: Any) -> Any:
    array = store(module, shape, chunks, **options)
    values = np.arange(1, np.prod(shape) + 1).reshape(shape)
    array.write(values.astype(array.dtype.numpy_dtype)).result()
    return array


CASES = [
    # target shape and labels, source shape and labels
    ((4, 6), None, (4, 6), None),
    ((4, 6), None, (6,), None),
    ((4, 6), None, (1, 6), None),
    ((4, 6), None, (4, 1), None),
    ((4, 6), None, (1, 4, 6), None),
    ((4, 6), None, (5,), None),
    ((4, 6), None, (2, 4, 6), None),
    ((4, 6), ["x", "y"], (6, 4), ["y", "x"]),
    ((4, 6), ["x", "y"], (6,), ["y"]),
    ((4, 6), ["x", "y"], (4,), ["x"]),
    ((4, 6), ["x", "y"], (6,), None),
    ((4, 6), ["x", ""], (6,), [""]),
    ((4, 6), ["x", "y"], (1,), ["z"]),
    ((4, 6), ["x", "y"], (3,), ["z"]),
    ((4, 6), None, (), None),
    ((), None, (), None),
    ((0, 3), None, (0, 3), None),
]


@pytest.mark.parametrize(("target", "target_labels", "source", "source_labels"), CASES)
def test_alignment(target: Any, target_labels: Any, source: Any, source_labels: Any) -> None:
    outcomes = []
    for module in (cw, ts):
        a = store(module, target, tuple(min(3, max(1, n)) for n in target), labels=target_labels)
        b = filled(module, source, tuple(min(2, max(1, n)) for n in source), labels=source_labels)
        try:
            a.write(b).result()
            outcomes.append(a.read().result().tolist())
        except ValueError as e:
            outcomes.append(str(e).split("[tensorstore_spec")[0].split(" [source locations")[0].strip())
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "source", ["bool", "uint8", "int8", "uint16", "int32", "float32", "float64", "complex64"]
)
@pytest.mark.parametrize("target", ["bool", "uint8", "int16", "float32", "complex128"])
def test_conversions(source: str, target: str) -> None:
    outcomes = []
    for module in (cw, ts):
        a = store(module, (3, 4), (2, 2), target)
        b = filled(module, (3, 4), (2, 2), dtype=source)
        try:
            a.write(b).result()
            outcomes.append(a.read().result().tolist())
        except ValueError as e:
            outcomes.append(str(e))
    assert outcomes[0] == outcomes[1]


def test_what_cannot_be_read_or_written() -> None:
    context, spec = cw.Context(), {"driver": "zarr3", "kvstore": {"driver": "memory"}}
    cw.open(spec, create=True, dtype=cw.uint16, shape=[4], context=context).result()
    read_only = cw.open(spec, read=True, write=False, context=context).result()
    write_only = cw.open(spec, read=False, write=True, context=context).result()
    b = store(cw, (4,), (2,))
    with pytest.raises(ValueError, match="Destination does not support writing"):
        read_only.write(b).result()
    with pytest.raises(ValueError, match="Source does not support reading"):
        b.write(write_only).result()


@pytest.fixture
def tiny_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make every copy go block by block, each block as small as it may be."""
    monkeypatch.setattr(copy_module, "_SMALL_NBYTES", -1)
    original = copy_module.divide
    monkeypatch.setattr(copy_module, "divide", lambda a, b, _: original(a, b, 1))
    yield


@pytest.mark.usefixtures("tiny_blocks")
@pytest.mark.parametrize("driver", ["zarr3", "n5", "zarr"])
def test_blocks_give_the_same_as_one_go(driver: str) -> None:
    a = store(cw, (23, 17), (5, 4), driver=driver)
    b = filled(cw, (17,), (6,))
    a.write(b).result()
    assert np.array_equal(a.read().result(), np.broadcast_to(np.arange(1, 18), (23, 17)))


@pytest.mark.usefixtures("tiny_blocks")
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_views_of_all_kinds(data: st.DataObject) -> None:
    a = store(cw, (12, 10), (5, 4), driver="n5")
    b = filled(cw, (12, 10), (3, 7))
    expected, values = np.zeros((12, 10), "u2"), b.read().result()
    step = data.draw(st.sampled_from([1, 2, -1]))
    lo, size = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 4))
    transposed = data.draw(st.booleans())
    rows = slice(lo, lo + 2 * size, 2) if step == 2 else slice(lo, lo + size)
    target, source = a[rows, 2:8], b[rows, 1:7]
    expected_view, values_view = expected[rows, 2:8], values[rows, 1:7]
    if step == -1:
        target, expected_view = target[:, 7:1:-1], expected_view[:, ::-1]
    if transposed:
        target, source = target.T, source.T
        expected_view, values_view = expected_view.T, values_view.T
    target.write(source).result()
    expected_view[...] = values_view
    assert np.array_equal(a.read().result(), expected)


@pytest.mark.usefixtures("tiny_blocks")
def test_blocks_lie_on_the_write_chunks_of_the_target() -> None:
    a = store(cw, (20, 30), (8, 10))
    for view in (a, a[3:, 7:], a.translate_by[100, 1000], a.T):
        source = filled(cw, view.shape, (7, 7))
        copy = BlockCopy(view, source)
        layout = view.chunk_layout
        for block in copy.blocks.domains():
            for lo, hi, at, chunk, first, last in zip(
                block.inclusive_min, block.exclusive_max, layout.grid_origin, layout.write_chunk.shape,
                view.domain.inclusive_min, view.domain.exclusive_max, strict=True,
            ):  # fmt: skip
                assert (lo - at) % chunk == 0 or lo == first
                assert (hi - at) % chunk == 0 or hi == last


def test_memory_is_that_of_a_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = BlockCopy.read

    def read(self: BlockCopy, block: Any) -> Any:
        sizes.append(self.nbytes(block))
        return original(self, block)

    monkeypatch.setattr(BlockCopy, "read", read)
    a, b = store(cw, (64, 64, 64), (8, 8, 8)), filled(cw, (64, 64, 64), (16, 4, 32))
    copy = BlockCopy(a, b, block_nbytes=40_000)
    for block in copy.blocks.domains():
        copy.copy(block)
    assert max(sizes) <= 40_000 and sum(sizes) == 2 * 64**3
    assert np.array_equal(a.read().result(), b.read().result())


@pytest.mark.usefixtures("tiny_blocks")
def test_a_failure_in_a_block_is_the_failure_of_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = store(cw, (20, 20), (4, 4)), filled(cw, (20, 20), (4, 4))
    calls: list[Any] = []

    def fail(self: BlockCopy, block: Any) -> Any:
        calls.append(block)
        raise ValueError("this one")

    monkeypatch.setattr(BlockCopy, "copy", fail)
    future = copy_into(a, b)
    with pytest.raises(ValueError, match="this one"):
        future.result()
    assert len(calls) < 10
    assert future.exception() is future.copy.exception()


def test_futures_and_batches() -> None:
    a, b = store(cw, (20, 20), (4, 4)), filled(cw, (20, 20), (4, 4))
    futures = a.write(b)
    assert futures.copy.result() is None and futures.result() is None and futures.done()
    c = store(cw, (20, 20), (3, 3))
    batch = cw.Batch()
    pending = c.write(b, batch=batch)
    assert not pending.done()
    batch.submit()
    pending.result()
    assert np.array_equal(c.read().result(), b.read().result())
    with pytest.raises(ValueError, match="batch"):
        c.write(np.zeros((20, 20), "u2"), batch=cw.Batch())
