"""The specification of the stack driver, example by example and sentence by sentence, in both libraries."""

import numpy as np
import pytest
import tensorstore

import chunkwise as ts

FIRST = {"driver": "array", "array": [1, 2, 3], "dtype": "int32"}
SECOND = {
    "driver": "array",
    "array": [4, 5, 6],
    "dtype": "int32",
    "transform": {"input_inclusive_min": [3], "output": [{"input_dimension": 0, "offset": -3}]},
}
FOUR = {"driver": "array", "dtype": "int32", "array": [1, 2, 3, 4]}
MOVED = {
    **FOUR,
    "transform": {
        "input_inclusive_min": [4],
        "input_exclusive_max": [8],
        "output": [{"input_dimension": 0, "offset": -4}],
    },
}
LIBRARIES = pytest.mark.parametrize("library", [ts, tensorstore], ids=["chunkwise", "tensorstore"])


def _stack(*layers, **members):
    return {"driver": "stack", "layers": list(layers), **members}


@LIBRARIES
def test_the_data_type_of_two_layers(library):
    """``open(…).result().schema.dtype`` of two arrays after each other."""
    store = library.open(_stack(FOUR, MOVED)).result()
    assert repr(store.schema.dtype) == 'dtype("int32")'
    assert store.read().result().tolist() == [1, 2, 3, 4, 1, 2, 3, 4]
    assert repr(store.domain) == "{ [0, 8) }"


def test_a_layer_whose_upper_bound_the_array_says():
    """The effective domain of a layer follows from its schema and its transform."""
    store = ts.open(_stack(FIRST, SECOND)).result()
    assert repr(store.domain) == "{ [0, 6) }"
    assert store.read().result().tolist() == [1, 2, 3, 4, 5, 6]
    # TensorStore 0.1.86 takes it for infinite, unless the layer is open.
    assert repr(tensorstore.open(_stack(FIRST, SECOND)).result().domain) == "{ [0, +inf) }"
    for library in (ts, tensorstore):
        assert library.overlay([library.open(FIRST).result(), library.open(SECOND).result()]).shape == (6,)


@LIBRARIES
def test_subsequent_layers_override(library):
    over = {**MOVED["transform"], "input_inclusive_min": [2], "input_exclusive_max": [6]}
    over["output"] = [{"input_dimension": 0, "offset": -2}]
    store = library.open(_stack(FOUR, {**FOUR, "transform": over})).result()
    assert store.read().result().tolist() == [1, 2, 1, 2, 3, 4]


@LIBRARIES
def test_schema_members(library):
    """Rank, data type, domain and units are propagated, and implicit infinite bounds are the hull's."""
    schema = {
        "rank": 1,
        "dtype": "int32",
        "domain": {"inclusive_min": [2], "exclusive_max": [["+inf"]]},
        "dimension_units": [[4, "nm"]],
    }
    store = library.open(_stack(FOUR, MOVED, schema=schema)).result()
    assert repr(store.domain) == "{ [2, 8) }"
    assert str(store.dimension_units[0]) == "4 nm"
    for wrong in ({"rank": 2}, {"dtype": "int64"}, {"fill_value": 3}, {"codec": {"driver": "n5"}}):
        with pytest.raises(ValueError):
            library.open(_stack(FOUR, MOVED, schema=wrong)).result()
    with pytest.raises(ValueError):
        library.open(_stack(FOUR, schema={"chunk_layout": {"chunk": {"shape": [2]}}})).result()


@LIBRARIES
def test_units_that_layers_have_in_common(library):
    layers = [
        library.open(FOUR, dimension_units=[unit]).result().translate_to[4 * i]
        for i, unit in enumerate(["4 nm", None, "4 nm"])
    ]
    assert str(library.overlay(layers).dimension_units[0]) == "4 nm"
    layers.append(library.open(FOUR, dimension_units=["5 nm"]).result().translate_to[12])
    assert library.overlay(layers).dimension_units[0] is None


@LIBRARIES
def test_writing_where_layers_can_be_written(library):
    memory = np.zeros(3, np.int32)
    frozen = np.arange(3, dtype=np.int32)
    frozen.setflags(write=False)
    store = library.overlay([library.array(memory), library.array(frozen, copy=False).translate_to[3]])
    store[:3].write([7, 8, 9]).result()
    assert memory.tolist() == [7, 8, 9]
    with pytest.raises(ValueError):
        store.write(1).result()
    with pytest.raises(ValueError):
        library.overlay([library.array(frozen, copy=False)], write=True)


@LIBRARIES
def test_resources_and_context(library):
    """``data_copy_concurrency`` by reference to the context, which layers see too."""
    context = {"data_copy_concurrency": {"limit": 1}, "memory_key_value_store#a": {}}
    kvstore = {"driver": "memory", "memory_key_value_store": "memory_key_value_store#a", "path": "x/"}
    layer = {"driver": "zarr3", "kvstore": kvstore, "dtype": "uint8", "schema": {"domain": {"shape": [3]}}}
    members = {"context": context, "data_copy_concurrency": "data_copy_concurrency"}
    store = library.open(_stack({**layer, "create": True, "open": True}, **members), write=True).result()
    store.write(np.array([1, 2, 3], np.uint8)).result()
    shown = store.spec(retain_context=True).to_json()
    assert shown["driver"] == "stack"
    assert shown["context"]["data_copy_concurrency"] == {"limit": 1}
