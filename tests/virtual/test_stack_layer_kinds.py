"""Layers that are alike are parsed once: what comes out is what parsing each of them gives."""

import json

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.core.driver.stack_layers import LayerParser

NUMBER = st.sampled_from([0, 1, -3, 5, 2**62, -(2**62) + 1, 2**62 - 1, 1.0, True, "3", None, [4]])
TRANSFORM = st.fixed_dictionaries(
    {"input_inclusive_min": st.lists(st.sampled_from([0, 4, -2]) | NUMBER, max_size=3)},
    optional={
        "input_shape": st.lists(st.sampled_from([0, 4, 7]) | NUMBER, max_size=3),
        "input_exclusive_max": st.lists(st.sampled_from([9, 4, 7]) | NUMBER, max_size=3),
        "input_labels": st.just(["x", "y"]),
        "output": st.lists(
            st.dictionaries(st.sampled_from(["input_dimension", "offset", "stride", "index"]), NUMBER),
            max_size=3,
        ),
    },
)
LAYER = st.fixed_dictionaries(
    {"driver": st.sampled_from(["zarr3", "n5", "zarr", "array", "json", 3])},
    optional={
        "transform": TRANSFORM,
        "kvstore": st.sampled_from(
            [
                {"driver": "memory", "path": "a"},
                {"driver": "memory", "path": "b/"},
                {"driver": "file", "path": "/tmp/../x"},
                {"driver": "file", "path": "/c", "file_io_sync": False},
                {"driver": "file", "path": 3},
                {"driver": "memory"},
                "memory://d/e",
                "nothing://d",
                {"driver": "zip", "base": "memory://z", "path": "f"},
            ]
        ),
        "dtype": st.sampled_from(["uint8", "int32", "no"]),
        "path": st.just("g"),
        "rank": st.just(2),
        "open": st.sampled_from([True, 1]),
        "metadata": st.just({"compression": {"type": "raw"}}),
    },
)
PLANE = {"input_inclusive_min": [0, 0], "input_shape": [2, 2]}
LINE = {"input_inclusive_min": [0], "input_shape": [2]}
ELEMENT = st.sampled_from([0, 1, 7, -1, 255, 256, 2**31, 2.0, 2.5, True, None, "3", [5]])
ARRAY_LAYER = st.fixed_dictionaries(
    {"driver": st.just("array"), "dtype": st.sampled_from(["uint8", "int32", "int4", "float32", "json", 3])},
    optional={
        "array": st.one_of(
            st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), min_size=2, max_size=2),
            st.lists(st.lists(ELEMENT, max_size=2), max_size=3),
            st.lists(ELEMENT, max_size=3),
            ELEMENT,
        ),
        "transform": st.sampled_from([PLANE, PLANE | {"input_inclusive_min": [1, 2]}, LINE]) | TRANSFORM,
        "rank": st.sampled_from([1, 2]),
        "schema": st.sampled_from([{"domain": {"shape": [2, 2]}}, {"dimension_units": ["nm", None]}]),
        "extra": st.just(1),
    },
)


def _outcome(run):
    try:
        return json.dumps(run().to_json())
    except (ValueError, TypeError) as e:
        return str(e)


@pytest.mark.parametrize("layer", [LAYER, ARRAY_LAYER | LAYER], ids=["stored", "in memory too"])
@settings(max_examples=examples(400), deadline=None)
@given(data=st.data())
def test_as_each_by_itself(layer, data):
    """Whatever came before: the same spec, or the same error."""
    layers = data.draw(st.lists(layer, min_size=1, max_size=6))
    parser = LayerParser()
    for layer in [*layers, *layers]:
        assert _outcome(lambda layer=layer: parser.parse(layer)) == _outcome(
            lambda layer=layer: ts.Spec(layer)
        )


@pytest.mark.parametrize("kvstore", ["memory://{}", {"driver": "memory", "path": "{}"}])
def test_alike_layers_are_different_arrays(kvstore):
    """Each of many layers reads its own array, of the data type and in the context of the stack."""
    context = ts.Context()
    layers = []
    for i in range(20):
        path = f"tile{i}/"
        spec = {"driver": "zarr3", "kvstore": {"driver": "memory", "path": path}}
        ts.open(spec, create=True, dtype=ts.int32, shape=[4], fill_value=i, context=context).result()
        where = {"input_inclusive_min": [4 * i], "input_shape": [4]}
        output = [{"input_dimension": 0, "offset": -4 * i}]
        store = kvstore.format(path) if isinstance(kvstore, str) else {**kvstore, "path": path}
        layers.append({"driver": "zarr3", "kvstore": store, "transform": {**where, "output": output}})
    stack = ts.open({"driver": "stack", "layers": layers, "dtype": "int32"}, context=context).result()
    assert stack.read().result().tolist() == [i for i in range(20) for _ in range(4)]
    assert [layer["kvstore"]["path"] for layer in stack.spec().to_json()["layers"]] == [
        f"tile{i}/" for i in range(20)
    ]


def test_alike_layers_in_memory_have_their_own_elements():
    """Bound, stripped, shown and read, each array is itself."""
    layers = []
    for i in range(20):
        where = {"input_inclusive_min": [2 * i], "input_shape": [2]}
        output = [{"input_dimension": 0, "offset": -2 * i}]
        array = {"driver": "array", "dtype": "int16", "array": [i, -i]}
        layers.append({**array, "transform": {**where, "output": output}})
    spec = ts.Spec({"driver": "stack", "layers": layers})
    stack = ts.open(spec).result()
    assert stack.read().result().tolist() == [n for i in range(20) for n in (i, -i)]
    assert [layer["array"] for layer in stack.spec().to_json()["layers"]] == [[i, -i] for i in range(20)]
    spec.update(unbind_context=True, minimal_spec=True)
    assert [layer["array"] for layer in spec.to_json()["layers"]] == [[i, -i] for i in range(20)]
