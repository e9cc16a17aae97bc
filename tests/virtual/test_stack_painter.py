"""Stacks of random layers against a painter, who paints one array over the other."""

import numpy as np
import pytest
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from virtual_oracle import coordinates, gather, scatter, transforms

from chunkwise.core.api.held import array
from chunkwise.core.api.stack import overlay
from chunkwise.core.api.views import downsample
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan import layers as plan_layers
from chunkwise.core.plan import stack as plan
from chunkwise.errors import InvalidArgumentError

NO_LAYER = -1


@st.composite
def painted(draw, fill=False):
    """Layers with their arrays, what they look like from above, and its origin."""
    rank = draw(st.integers(0, 3))
    lo = tuple(draw(st.integers(-5, 5)) for _ in range(rank))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    canvas = np.full(shape, NO_LAYER)
    n = draw(st.integers(1, 8))
    layers = []
    for i in range(n):
        start = tuple(draw(st.integers(0, s - 1)) for s in shape)
        size = tuple(draw(st.integers(1, s - a)) for s, a in zip(shape, start, strict=True))
        if i == 0 and (fill or draw(st.booleans())):
            start, size = (0,) * rank, shape
        values = np.asarray(np.arange(np.prod(size, dtype=int)).reshape(size) + 1000 * (i + 1))
        canvas[tuple(slice(a, a + b) for a, b in zip(start, size, strict=True))] = values
        store = array(values)
        at = tuple(a + b for a, b in zip(start, lo, strict=True))
        layers.append((store.translate_to[at] if rank else store, values, at))
    domain = IndexDomain(inclusive_min=lo, shape=shape)
    request = draw(transforms(lo, tuple(a + b for a, b in zip(lo, shape, strict=True))))
    return layers, canvas, lo, domain, request


def _turned(values, at):
    """Return an array that lies backwards in memory, so that it is read by itself."""
    backwards = (slice(None, None, -1),) * values.ndim
    store = array(np.array(values[backwards]))
    return store[backwards].translate_to[at] if at else store


LIMITS = st.sampled_from([(1, 1), (4, 64), (2**20, 2**22)])


@settings(max_examples=examples(500), deadline=None)
@given(painted(), LIMITS, st.booleans())
def test_read(case, limits, turned):
    """A read shows the topmost layers, or fails where there is none, whatever the transform."""
    layers, canvas, lo, domain, request = case
    stores = [_turned(values, at) if turned else store for store, values, at in layers]
    stack = overlay(stores, domain=domain)
    expected = gather(canvas, lo, request)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_LARGEST_TABLE", limits[0])
        patch.setattr(plan_layers, "_POINTS_NBYTES", limits[1])
        read = stack[request].read()
    if (expected == NO_LAYER).any():
        with pytest.raises(
            InvalidArgumentError, match=r'^Cell with origin=\{.*\} missing layer mapping in "stack"'
        ):
            read.result()
    else:
        assert np.array_equal(read.result(), expected)


@settings(max_examples=examples(500), deadline=None)
@given(painted(fill=True), LIMITS)
def test_write(case, limits):
    """A write goes to the topmost layer at each index and to no other; of several values the last stays."""
    layers, canvas, lo, domain, request = case
    stack = overlay([store for store, _, _ in layers], domain=domain)
    values = np.arange(request.size).reshape(request.input_shape) - 5000
    scatter(canvas, lo, request, values)
    owner = np.full(canvas.shape, -1)
    for i, (_, own, at) in enumerate(layers):
        owner[tuple(slice(a - o, a - o + n) for a, o, n in zip(at, lo, own.shape, strict=True))] = i
    before = [own.copy() for _, own, _ in layers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_LARGEST_TABLE", limits[0])
        patch.setattr(plan_layers, "_POINTS_NBYTES", limits[1])
        stack[request].write(values).result()
    for i, (_, own, at) in enumerate(layers):
        here = tuple(slice(a - o, a - o + n) for a, o, n in zip(at, lo, own.shape, strict=True))
        assert np.array_equal(own, np.where(owner[here] == i, canvas[here], before[i]))


@settings(max_examples=examples(200), deadline=None)
@given(painted(), st.data())
def test_only_what_is_needed_is_opened(case, data):
    """Of the layers only those are touched that are on top somewhere in the request."""
    layers, canvas, lo, domain, request = case
    stack = overlay([store for store, _, _ in layers], domain=domain)
    index = tuple(c - o for c, o in zip(coordinates(request), lo, strict=True))
    seen = np.broadcast_to(canvas[index], request.input_shape)
    assume((seen != NO_LAYER).all())
    parts = list(stack._array._parts(request))
    assert {part.layer for part in parts} == set((seen // 1000 - 1).ravel().tolist())
    assert sum(part.request.size for part in parts) <= request.size


@settings(max_examples=examples(200), deadline=None)
@given(painted(fill=True), st.data())
def test_through_other_views(case, data):
    """Indexing, transposition and downsampling of a stack show what they show of the painting."""
    layers, canvas, _, domain, _ = case
    rank = canvas.ndim
    assume(rank)
    view = overlay([store for store, _, _ in layers], domain=domain).translate_to[(0,) * rank]
    order = data.draw(st.permutations(range(rank)))
    view, expected = view.transpose(order), canvas.transpose(order)
    cut = tuple(slice(a, None) for a in (data.draw(st.integers(0, n - 1)) for n in expected.shape))
    view, expected = view[cut].translate_to[(0,) * rank], expected[cut]
    factors = [data.draw(st.integers(1, 4)) for _ in range(rank)]
    method = data.draw(st.sampled_from(["stride", "mean", "min", "max", "median", "mode"]))
    smaller = downsample(view, factors, method)
    same = downsample(array(np.array(expected)), factors, method)
    assert np.array_equal(smaller.read().result(), same.read().result())
    if rank > 1:
        smaller, same = smaller.T[..., ::-1], same.T[..., ::-1]
    assert np.array_equal(smaller.read().result(), same.read().result())
    points = [data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2)) for n in expected.shape]
    assert np.array_equal(view.oindex[tuple(points)].read().result(), expected[np.ix_(*points)])


@settings(max_examples=examples(100), deadline=None)
@given(painted(fill=True), st.data())
def test_writes_through_other_views(case, data):
    """What is written through a transposed, reversed part of a stack is read back through the whole."""
    layers, canvas, _, domain, _ = case
    rank = canvas.ndim
    stack = overlay([store for store, _, _ in layers], domain=domain)
    assume(rank)
    order = data.draw(st.permutations(range(rank)))
    step = data.draw(st.sampled_from([1, 2, -1]))
    view = stack.translate_to[(0,) * rank].transpose(order)[::step]
    seen = canvas.transpose(order)[::step]
    values = np.arange(seen.size).reshape(seen.shape) - 9000
    view.write(values).result()
    seen[...] = values
    assert np.array_equal(stack.read().result(), canvas)
