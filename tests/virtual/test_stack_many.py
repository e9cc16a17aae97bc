"""Stacks of very many layers: what is opened, what is remembered, and that nothing grows with the square."""

import numpy as np
import pytest

import chunkwise as ts

N = 10_000


def _layer(i, stride=1):
    """Return the spec of a layer of one element, which has to be opened if it is turned."""
    place = [i // 100, i % 100]
    return {
        "driver": "array",
        "dtype": "int32",
        "array": [[i]],
        "transform": {
            "input_inclusive_min": place,
            "input_shape": [1, 1],
            "output": [
                {"input_dimension": d, "offset": -p * stride, "stride": stride} for d, p in enumerate(place)
            ],
        },
    }


@pytest.fixture(scope="module")
def spec():
    return ts.Spec({"driver": "stack", "layers": [_layer(i) for i in range(N)]})


def test_elements_in_memory(spec, opened):
    """No layer is opened whose elements are there."""
    store = ts.open(spec).result()
    assert store[3:5, 7:9].read().result().tolist() == [[307, 308], [407, 408]]
    assert np.array_equal(store.read().result(), np.arange(N).reshape(100, 100))
    assert not opened()


def test_on_demand(opened):
    """Opening opens no layer, and a small read those that it needs."""
    store = ts.open({"driver": "stack", "layers": [_layer(i, stride=-1) for i in range(N)]}).result()
    assert not opened()
    assert store[3:5, 7:9].read().result().tolist() == [[307, 308], [407, 408]]
    assert opened() == 4
    assert np.array_equal(store.read().result(), np.arange(N).reshape(100, 100))
    assert opened() == N


def test_scattered_points(spec):
    """Points all over the stack are read from the layers that have them."""
    store = ts.open(spec).result()
    x, y = np.random.default_rng(0).integers(0, 100, (2, 300))
    assert np.array_equal(store.vindex[x, y].read().result(), x * 100 + y)


def test_hidden_layers():
    """Layers that nothing is seen of don't cost anything: one on top is read as one."""
    layers = [ts.array(np.full((1, 1), i)).translate_to[i // 100, i % 100] for i in range(N)]
    top = ts.array(np.arange(N).reshape(100, 100))
    store = ts.overlay([*layers, top])
    parts = store._array._parts(store._transform)
    assert [part.layer for part in parts] == [N]
    assert np.array_equal(store.read().result(), np.arange(N).reshape(100, 100))


def test_scattered_boxes():
    """Thousands of overlapping boxes over a background, against a painter."""
    rng = np.random.default_rng(1)
    canvas = np.zeros((60, 60, 60), np.int32)
    layers = [ts.array(canvas.copy())]
    for i in range(1, 2001):
        at = rng.integers(0, 56, 3).tolist()
        layers.append(ts.array(np.full((4, 4, 4), i, np.int32)).translate_to[tuple(at)])
        canvas[tuple(slice(a, a + 4) for a in at)] = i
    store = ts.overlay(layers)
    assert np.array_equal(store[10:50, 20:55:2, 5:40].read().result(), canvas[10:50, 20:55:2, 5:40])
