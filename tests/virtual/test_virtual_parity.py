# ruff: noqa: E501  (one line for each case)
"""array, cast, downsample, stack and json: each line is run with TensorStore too, and must say the same.

Values, reprs, domains and errors are compared as text; an error by its built-in type and its message,
without the payload that TensorStore appends in brackets.
"""

import json
import pickle
import re

import numpy as np
import pytest
import tensorstore

import chunkwise

PAYLOAD = re.compile(r" \[(?:tensorstore_spec|transform|domain)")


def _outcome(library, run):
    try:
        return repr(run(library))
    except Exception as e:
        kinds = (NotImplementedError, IndexError, TypeError, ValueError, Exception)
        kind = next(k for k in kinds if isinstance(e, k))
        return f"{kind.__name__}: {PAYLOAD.split(str(e))[0]}"


def _check(run):
    assert _outcome(chunkwise, run) == _outcome(tensorstore, run)


def _array(values, dtype="int32", lower=None, **members):
    spec = {"driver": "array", "array": values, "dtype": dtype, **members}
    if lower is not None:
        shape = list(np.array(values).shape)
        output = [{"input_dimension": i, "offset": -lo} for i, lo in enumerate(lower)]
        spec["transform"] = {"input_inclusive_min": lower, "input_shape": shape, "output": output}
    return spec


def _stack(*layers, **members):
    return {"driver": "stack", "layers": list(layers), **members}


A = np.arange(10, dtype="int32")

ARRAYS = {
    "spec": lambda t: t.array(A).spec(),
    "all members": lambda t: t.array(A).spec().to_json(include_defaults=True),
    "slice": lambda t: t.array(A)[2:5].spec(),
    "backwards": lambda t: t.array(A)[::-2].spec(),
    "points": lambda t: t.array(A)[[1, 1, 4]].spec(),
    "repeated": lambda t: t.array(A)[None, 3:4][3:9].spec(),
    "one": lambda t: t.array(A)[3].spec(),
    "repr": lambda t: t.array(A),
    "broadcast": lambda t: t.array(np.broadcast_to(np.arange(2), (3, 2))).spec(),
    "complex": lambda t: t.array(np.ones(2, complex)).spec(),
    "schema": lambda t: t.array(A).schema,
    "Fortran": lambda t: t.array(np.zeros((2, 3), order="F")).schema,
    "strides": lambda t: t.array(np.zeros((4, 3))[::-1].T).schema,
    "units": lambda t: t.array(A).dimension_units,
    "pickle": lambda t: pickle.loads(pickle.dumps(t.array(A)[2:4])).read().result(),
    "resize": lambda t: t.array(A)[None].resize(exclusive_max=[1, None]).result(),
    "url": lambda t: t.array(A).url,
    "base": lambda t: (t.array(A).base, t.array(A).kvstore, t.array(A).codec, t.array(A).fill_value),
    "statistics": lambda t: t.array(A).storage_statistics(query_not_stored=True, query_fully_stored=True).result(),
    "transaction": lambda t: isinstance(_raised(lambda: t.array(A).with_transaction(t.Transaction()).read().result()), NotImplementedError),
    "text": lambda t: t.array(["a", "b"], dtype=t.ustring),
    "objects": lambda t: t.array(np.array([1, "a"], object)),
    "json": lambda t: t.array([[1, 2], [3, 4]], dtype=t.json),
    "scalar": lambda t: t.array(5),
    "store": lambda t: t.array(t.array(A)[2:4]).read().result(),
    "read only": lambda t: (t.array(A, write=False).mode, t.array(_frozen(A)).mode, t.array(_frozen(A), write=True).mode),
    "list": lambda t: t.array([1.7], dtype="int32").read().result(),
    "unsafe": lambda t: t.array(np.zeros(2), dtype="int32"),
}  # fmt: skip


def _frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def _raised(run):
    try:
        run()
    except Exception as e:
        return e
    return None


@pytest.mark.parametrize("name", ARRAYS)
def test_array(name):
    """``array`` of values in memory."""
    _check(ARRAYS[name])


MEMBERS = [
    {"array": [1, 2]},
    {"array": [1, 300], "dtype": "uint8"},
    {"array": [[1], [1, 2]], "dtype": "uint8"},
    {"array": [1], "dtype": "uint8", "rank": 2},
    {"array": [1], "dtype": "uint8", "schema": {"fill_value": 1}},
    {"array": [1], "dtype": "uint8", "kvstore": "memory://"},
    {"array": [1], "dtype": "uint8", "schema": {"domain": {"shape": [2]}}},
    {"array": [1], "dtype": "uint8", "schema": {"domain": {"shape": [1], "labels": ["x"]}}},
    {"array": [1], "dtype": "uint8", "schema": {"chunk_layout": {"chunk": {"shape": [1]}}}},
    {"array": [1], "dtype": "uint8", "schema": {"chunk_layout": {"inner_order": [0]}}},
    {"array": [1.5], "dtype": "uint8"},
    {"array": [None], "dtype": "uint8"},
    {"array": 5, "dtype": "uint8"},
    {"array": ["5"], "dtype": "uint8"},
    {"array": [1], "dtype": "uint8", "create": True},
    {"array": [[1, 2]], "dtype": "json"},
    {"array": [[1, 2], [3, 4]], "dtype": "int32", "schema": {"dimension_units": ["4nm", None]}},
]


@pytest.mark.parametrize("members", MEMBERS, ids=str)
def test_array_specs(members):
    """Members of the driver ``array``, parsed, printed and opened."""
    _check(lambda t: t.Spec({"driver": "array", **members}))
    _check(lambda t: t.open({"driver": "array", **members}).result())


@pytest.mark.parametrize(
    "options", [{"shape": [2]}, {"shape": [3]}, {"fill_value": 3}, {"create": True}], ids=str
)
def test_array_options(options):
    """Options of opening an ``array``."""
    _check(lambda t: t.open(_array([1, 2]), **options).result())


def _zarr(t):
    context = t.Context()
    t.open(
        {"driver": "zarr3", "kvstore": "memory://x/"},
        context=context,
        create=True,
        dtype="uint16",
        shape=[10, 12],
        chunk_layout=t.ChunkLayout(chunk_shape=[4, 6]),
        dimension_units=["4nm", None],
        fill_value=7,
    ).result()
    return context, t.open({"driver": "zarr3", "kvstore": "memory://x/"}, context=context).result()


Z = {"driver": "zarr3", "kvstore": "memory://x/"}
C = {"driver": "cast", "base": Z, "dtype": "float32"}
CASTS = {
    "spec": lambda t, c, b: t.cast(b, "float32").spec(),
    "repr": lambda t, c, b: t.cast(b, "float32"),
    "view": lambda t, c, b: t.cast(b, "float32")[2:5].spec(),
    "base": lambda t, c, b: t.cast(b, "float32")[2:5].base,
    "schema": lambda t, c, b: t.cast(b, "float32").schema,
    "url": lambda t, c, b: t.cast(b, "float32").url,
    "kvstore": lambda t, c, b: t.cast(b, "float32").kvstore.spec(),
    "nested": lambda t, c, b: t.cast(t.cast(b, "float32"), "uint16").spec(),
    "retained": lambda t, c, b: t.cast(b, "float32").spec(retain_context=True),
    "resize": lambda t, c, b: t.cast(b, "float32").resize(exclusive_max=[20, 12]).result().domain,
    "statistics": lambda t, c, b: t.cast(b, "float32").storage_statistics(query_not_stored=True).result(),
    "constrained": lambda t, c, b: t.Spec({**C, "base": {**Z, "dtype": "uint8", "schema": {"fill_value": 3, "dimension_units": ["4nm"]}}}),
    "domain": lambda t, c, b: t.Spec({**C, "base": {**Z, "dtype": "uint8", "schema": {"fill_value": 3, "domain": {"shape": [5]}}}})[2:4].base,
    "no type": lambda t, c, b: t.Spec({"driver": "cast", "base": Z}),
    "no base": lambda t, c, b: t.Spec({"driver": "cast", "dtype": "int8"}),
    "passed on": lambda t, c, b: t.Spec({**C, "schema": {"domain": {"shape": [4]}, "fill_value": 1.5, "dimension_units": ["3nm"], "chunk_layout": {"chunk": {"shape": [2]}}}}),
    "created": lambda t, c, b: t.open({**C, "base": {**Z, "kvstore": "memory://y/", "dtype": "uint8"}}, create=True, shape=[4], fill_value=1.5, chunk_layout=t.ChunkLayout(chunk_shape=[2])).result(),
    "moved": lambda t, c, b: t.Spec({**C, "base": {**Z, "transform": {"input_inclusive_min": [2], "input_exclusive_max": [5], "output": [{"input_dimension": 0, "offset": -2}]}}}),
    "impossible": lambda t, c, b: t.open({"driver": "cast", "base": _array([True], "bool"), "dtype": "string"}).result(),
    "impossible store": lambda t, c, b: t.cast(t.array([True]), "string"),
    "impossible spec": lambda t, c, b: t.cast(t.Spec(_array([True], "bool")), "string"),
    "read only": lambda t, c, b: t.cast(t.array([1]), "string").mode,
    "write only": lambda t, c, b: t.open({"driver": "cast", "base": _array(["a"], "string"), "dtype": "int32"}).result().mode,
    "read of write only": lambda t, c, b: t.open({"driver": "cast", "base": _array(["a"], "string"), "dtype": "int32"}, read=True).result(),
    "write of read only": lambda t, c, b: t.open({"driver": "cast", "base": _array([1]), "dtype": "string"}, write=True).result(),
    "bad text": lambda t, c, b: t.cast(t.array([b"\xff"], dtype="string"), "ustring").read().result(),
    "bad number": lambda t, c, b: t.cast(t.array([1]), "json").write([2.5]).result(),
    "written to read only": lambda t, c, b: t.cast(t.array([1]), "string").write([b"2"]).result(),
    "astype": lambda t, c, b: t.array([1.5, -2.5]).astype("int32").read().result(),
}  # fmt: skip


@pytest.mark.parametrize("name", CASTS)
def test_cast(name):
    """``cast`` of arrays and of specs."""
    _check(lambda t: CASTS[name](t, *_zarr(t)))


D = {"driver": "downsample", "base": Z, "downsample_factors": [2, 3], "downsample_method": "mean"}
DOWNSAMPLES = {
    "repr": lambda t, c, b: t.downsample(b, [2, 3], "mean"),
    "view": lambda t, c, b: t.downsample(b, [2, 3], "mean")[1:3].spec(),
    "schema": lambda t, c, b: t.downsample(b, [2, 3], "mean").schema,
    "stride": lambda t, c, b: t.downsample(b, [2, 3], "stride").schema,
    "base": lambda t, c, b: t.downsample(b, [2, 3], "mean")[1:3].base.domain,
    "url": lambda t, c, b: t.downsample(b, [2, 3], "mean").url,
    "mode": lambda t, c, b: t.downsample(b, [2, 3], "mean").mode,
    "write": lambda t, c, b: t.downsample(b, [2, 3], "mean").write(1).result(),
    "spec": lambda t, c, b: t.Spec(D),
    "of a spec": lambda t, c, b: t.downsample(b.spec(), [2, 3], "mean"),
    "opened": lambda t, c, b: t.open(D, context=c).result(),
    "opened for writing": lambda t, c, b: t.open(D, context=c, write=True).result(),
    "opened for both": lambda t, c, b: t.open(D, context=c, read=True, write=True).result(),
    "no base": lambda t, c, b: t.Spec({k: v for k, v in D.items() if k != "base"}),
    "no factors": lambda t, c, b: t.Spec({k: v for k, v in D.items() if k != "downsample_factors"}),
    "no method": lambda t, c, b: t.Spec({k: v for k, v in D.items() if k != "downsample_method"}),
    "factors": lambda t, c, b: t.Spec({**D, "downsample_factors": [0, 1]}),
    "half": lambda t, c, b: t.Spec({**D, "downsample_factors": [1.5, 1]}),
    "no list": lambda t, c, b: t.Spec({**D, "downsample_factors": 5}),
    "too few": lambda t, c, b: t.open({**D, "downsample_factors": [2]}, context=c).result(),
    "method": lambda t, c, b: t.Spec({**D, "downsample_method": "foo"}),
    "type": lambda t, c, b: t.Spec({**D, "dtype": "float32"}),
    "rank": lambda t, c, b: t.Spec({**D, "rank": 3}),
    "fill value": lambda t, c, b: t.Spec({**D, "schema": {"fill_value": 3}}),
    "domain": lambda t, c, b: t.open({**D, "schema": {"domain": {"shape": [3, 3]}}}, context=c).result(),
    "chunks": lambda t, c, b: t.Spec({**D, "schema": {"chunk_layout": {"chunk": {"shape": [2, 2]}}}}),
    "units": lambda t, c, b: t.Spec({**D, "schema": {"dimension_units": ["3nm", "5nm"]}}),
    "create": lambda t, c, b: t.Spec({**D, "create": True}),
    "few": lambda t, c, b: t.downsample(b, [2], "mean"),
    "zero": lambda t, c, b: t.downsample(b, [2, 0], "mean"),
    "unknown": lambda t, c, b: t.downsample(b, [2, 1], "foo"),
    "complex": lambda t, c, b: t.downsample(t.array([1j]), [2], "min"),
    "labels": lambda t, c, b: t.downsample(b.label["x", "y"], [2, 3], "mean").domain,
    "transposed": lambda t, c, b: t.downsample(b.T[2:9], [2, 3], "mean"),
    "nested": lambda t, c, b: t.downsample(t.downsample(b, [2, 3], "mean"), [2, 1], "min"),
    "properties": lambda t, c, b: [(x.dimension_units, x.fill_value, x.codec) for x in [t.downsample(b, (2, 3), method="mean")]],
    "bounds": lambda t, c, b: [
        t.downsample(t.array(np.zeros(hi - lo)).translate_to[lo], [3], m).domain
        for m in ("mean", "stride", "min", "mode")
        for lo, hi in ((4, 4), (3, 3), (-4, 4), (-5, -5), (0, 0))
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", DOWNSAMPLES)
def test_downsample(name):
    """``downsample`` of arrays and of specs."""
    _check(lambda t: DOWNSAMPLES[name](t, *_zarr(t)))


DOCUMENT_EXAMPLE = {
    "driver": "stack",
    "layers": [
        {"driver": "array", "dtype": "int32", "array": [1, 2, 3, 4]},
        {
            "driver": "array",
            "dtype": "int32",
            "array": [1, 2, 3, 4],
            "transform": {
                "input_inclusive_min": [4],
                "input_exclusive_max": [8],
                "output": [{"input_dimension": 0, "offset": -4}],
            },
        },
    ],
}
OPEN_ENDED = {
    "driver": "stack",
    "layers": [
        {"driver": "array", "array": [1, 2, 3], "dtype": "int32"},
        {
            "driver": "array",
            "array": [4, 5, 6],
            "dtype": "int32",
            "transform": {"input_inclusive_min": [3], "output": [{"input_dimension": 0, "offset": -3}]},
        },
    ],
}
H = _stack(_array([1, 2]), _array([4, 5, 6], lower=[3]))
H2 = _stack(_array([[1, 2], [3, 4]]), _array([[5, 6], [7, 8]], lower=[2, 2]))
N = {**Z, "kvstore": "memory://n/", "schema": {"domain": {"shape": [3]}, "dtype": "int8"}}


def _labelled(label):
    return {**_array([1, 2]), "transform": {"input_shape": [2], "input_labels": [label]}}


def _opened(t, spec, **options):
    return t.open(spec, **options).result()


STACKS = {
    "document": lambda t: (_opened(t, DOCUMENT_EXAMPLE).schema, _opened(t, DOCUMENT_EXAMPLE).read().result()),
    # The domain of it differs: see test_stack_examples.
    "document, open-ended": lambda t: _opened(t, OPEN_ENDED)[1:5].read().result(),
    "spec": lambda t: t.Spec(H),
    "all members": lambda t: t.Spec(H).to_json(include_defaults=True),
    "store": lambda t: (_opened(t, H), _opened(t, H)[2:4].spec(), _opened(t, H).mode),
    "hole": lambda t: _opened(t, H).read().result(),
    "no hole": lambda t: (_opened(t, H)[0:2].read().result(), _opened(t, H)[3:].read().result()),
    "hole at": lambda t: _opened(t, H)[2].read().result(),
    "hole written": lambda t: _opened(t, H)[1:3].write(9).result(),
    "hole by points": lambda t: _opened(t, H)[[0, 2, 4]].read().result(),
    "hole jumped over": lambda t: _opened(t, H)[1::2].read().result(),
    "hole in 2d": lambda t: _opened(t, H2)[1:3, 1:3].read().result(),
    "hole transposed": lambda t: _opened(t, H2).T.read().result(),
    "nothing": lambda t: _opened(t, _stack(dtype="int8", schema={"domain": {"shape": [2]}})).read().result(),
    "nothing of nothing": lambda t: _opened(t, _stack(dtype="int8", schema={"domain": {"shape": [0]}})).read().result(),
    "no layers": lambda t: t.Spec({"driver": "stack"}),
    "types": lambda t: t.Spec(_stack(_array([1]), _array([1], "int64"))),
    "type": lambda t: t.Spec(_stack(_array([1]), dtype="int64")),
    "ranks": lambda t: t.Spec(_stack(_array([1]), _array([[1]]))),
    "rank": lambda t: t.Spec(_stack(_array([1]), rank=2)),
    "labels": lambda t: _opened(t, _stack(_labelled("x"), _labelled(""))).domain,
    "other labels": lambda t: t.Spec(_stack(_labelled("x"), _labelled("y"))),
    "unknown domain": lambda t: t.Spec(_stack(Z)),
    "missing layer": lambda t: _opened(t, _stack(_array([1], "int8"), N))[2:].read().result(),
    "bad layer": lambda t: t.Spec(_stack({"driver": "array", "array": [1]})),
    "bad layers": lambda t: t.Spec({"driver": "stack", "layers": 5}),
    "kvstore": lambda t: t.Spec({**H, "kvstore": "memory://"}),
    "create": lambda t: t.Spec({**H, "create": True}),
    "created": lambda t: _opened(t, _stack(N), create=True).write(3).result(),
    "created by reading": lambda t: _opened(t, _stack(N), create=True, open=True).read().result(),
    "larger": lambda t: _opened(t, H, shape=[9]).domain,
    "smaller": lambda t: _opened(t, H, shape=[2]),
    "fill value": lambda t: _opened(t, H, fill_value=3),
    "viewed": lambda t: _opened(t, {**H, "transform": {"input_shape": [2], "output": [{"input_dimension": 0, "offset": 3}]}}).read().result(),
    "same units": lambda t: _opened(t, _stack(_array([1], schema={"dimension_units": ["4nm"]}), _array([1]))).dimension_units,
    "other units": lambda t: _opened(t, _stack(_array([1], schema={"dimension_units": ["4nm"]}), _array([1], schema={"dimension_units": ["5nm"]}))).dimension_units,
    "given units": lambda t: _opened(t, _stack(_array([1], schema={"dimension_units": ["4nm"]}), schema={"dimension_units": ["5nm"]})).dimension_units,
    "overlay": lambda t: t.overlay([t.array(A), t.array(A).translate_to[8]]).spec(),
    "mixed": lambda t: t.overlay([t.array(A), t.array(A)[3:5].spec()]).read().result(),
    "none": lambda t: t.overlay([]),
    "none of a type": lambda t: t.overlay([], dtype="int8", shape=[3]).domain,
    "extended": lambda t: t.overlay([t.array(A)], shape=[16]).domain,
    "cropped": lambda t: t.overlay([t.array(A)], shape=[2]).read().result(),
    "labelled": lambda t: t.overlay([t.array(A)], domain=t.IndexDomain(labels=["x"])).domain,
    "modes": lambda t: [t.overlay(x).mode for x in ([t.array(A, write=False)], [t.array(A, write=False), t.array(A)])],
    "asked modes": lambda t: [t.overlay([t.array(A)], **{x: True}).mode for x in ("read", "write")],
    "asked too much": lambda t: t.overlay([t.array(A, write=False)], write=True),
    "read-only layer": lambda t: t.overlay([t.array(A, write=False), t.array(A).translate_to[10]]).write(3).result(),
    "stack": lambda t: t.stack([t.array(A), t.array(A)], 1)[2:4].read().result(),
    "stack spec": lambda t: t.stack([t.array(A), t.array(A)]).spec(),
    "stack at the end": lambda t: t.stack([t.array(A), t.array(A)], -1).domain,
    "stack beyond": lambda t: t.stack([t.array(A), t.array(A)], 2),
    "stack before": lambda t: t.stack([t.array(A), t.array(A)], -3),
    "stack of none": lambda t: t.stack([]),
    "stack of labels": lambda t: t.stack([t.array(A).label["x"], t.array(A).label["y"]]),
    "stack of shifted": lambda t: t.stack([t.array(A), t.array(A).translate_to[1]]).domain,
    "stack of ranks": lambda t: t.stack([t.array(A), t.array([[1]])]),
    "stack of scalars": lambda t: t.stack([t.array(1), t.array(2)]).read().result(),
    "concat": lambda t: t.concat([t.array(A), t.array(A)], 0).spec(),
    "concat by label": lambda t: t.concat([t.array(A).label["x"], t.array(A)], axis="x").domain,
    "concat of labels": lambda t: t.concat([t.array(A).label["x"], t.array(A).label["y"]], axis=0),
    "concat by other label": lambda t: t.concat([t.array(A).label["x"]], axis="y"),
    "concat beyond": lambda t: t.concat([t.array(A)], 1),
    "concat backwards": lambda t: t.concat([t.array(A).translate_to[5], t.array(A)], -1).domain,
    "concat of none": lambda t: t.concat([], 0),
    "concat of ranks": lambda t: t.concat([t.array(A), t.array([[1]])], 0),
    "rank of an overlay": lambda t: t.overlay([t.array(A)], rank=2),
    "ranks of an overlay": lambda t: t.overlay([t.array(A), t.array([[1]])]),
    "type of an overlay": lambda t: t.overlay([t.array(A)], dtype="int8"),
    "types of specs": lambda t: t.overlay([t.array(A).spec(), t.array([1], dtype="int8").spec()]),
    "nested, alike": lambda t: t.overlay([t.overlay([t.array(A), t.array(A).translate_to[8]]), t.array([5], "int32")]).read().result(),
    "url": lambda t: t.overlay([t.array(A)]).url,
    "statistics": lambda t: t.overlay([t.array(A)]).storage_statistics(query_not_stored=True).result(),
    "properties": lambda t: [(o.kvstore, o.base, o.codec, o.fill_value, o.resolve().result().domain) for o in [t.overlay([t.array(A)])]],
    "open mode": lambda t: t.Spec(H).open_mode,
    "nested": lambda t: t.overlay([t.overlay([t.array(A), t.array(A).translate_to[8]]), t.array([5])]).read().result(),
}  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
def test_stack(name):
    """``stack`` specs, ``overlay``, ``stack`` and ``concat``."""
    _check(STACKS[name])


SCHEMAS = [
    {"fill_value": 3},
    {"codec": {"driver": "n5"}},
    {"chunk_layout": {"chunk": {"shape": [2]}}},
    {"chunk_layout": {"chunk": {"shape_soft_constraint": [2]}}},
    {"chunk_layout": {"chunk": {"elements": 2}}},
    {"chunk_layout": {"inner_order": [0]}},
    {"domain": {"shape": [2]}},
    {"domain": {"shape": [6]}},
    {"domain": {"shape": [3], "labels": ["x"]}},
    {"domain": {"inclusive_min": [1]}},
    {"domain": {"labels": ["q"]}},
    {"domain": {"shape": [[2]]}},
    {"domain": {"rank": 2}},
    {"dimension_units": ["4nm"]},
    {"dtype": "int8"},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_stack_schemas(schema):
    """What a schema can say of a stack."""
    spec = _stack(_array([1, 2, 3]), schema=schema)
    _check(lambda t: t.Spec(spec))
    _check(lambda t: t.open(spec).result().schema)


def test_stack_transactions():
    """The layers' transaction becomes the stack's, and must be one."""

    def run(t, kind):
        context = t.Context()
        a, b = (
            t.open(
                {**Z, "kvstore": f"memory://{p}/"}, context=context, create=True, dtype="int8", shape=[3]
            ).result()
            for p in "ab"
        )
        one, two = t.Transaction(), t.Transaction()
        if kind == "shared":
            return t.overlay([a.with_transaction(one)]).transaction is one
        if kind == "given":
            store = t.overlay([a, b.translate_to[3]], transaction=one)
            store.write(5).result()
            before = a.read().result().tolist()
            one.commit_sync()
            return before, a.read().result().tolist(), b.read().result().tolist()
        if kind == "half":
            return t.overlay([a.with_transaction(one), b])
        return t.overlay([a.with_transaction(one)], transaction=two)

    for kind in ("shared", "given", "half", "other"):
        _check(lambda t, k=kind: run(t, k))


def _json_store(t, raw):
    context = t.Context()
    store = t.KvStore.open({"driver": "memory"}, context=context).result()
    if raw is not None:
        store.write("a.json", raw).result()
    return context, store


J = {"driver": "json", "kvstore": "memory://a.json"}
DOCUMENT = json.dumps({"": 7, "a": [1, 2, {"b": None}], "n": 5, "t~": 2, "x/y": 1}).encode()
POINTERS = [
    "", "/a", "/a/1", "/a/2/b", "/n", "/x~1y", "/t~0", "/", "/zz", "/a/5", "/a/-", "/a/x", "/n/q", "/a/2/b/c", "/a/01",
    "/a/-1", "/a/1/2", "/a/18446744073709551616", "/zz/q", "a", "/~", "/~2", "/a~", 5,
]  # fmt: skip


@pytest.mark.parametrize("pointer", POINTERS, ids=str)
def test_json_reads(pointer):
    """Places in a document."""

    def run(t):
        context, _ = _json_store(t, DOCUMENT)
        return t.open({**J, "json_pointer": pointer}, context=context).result().read().result()

    _check(run)


WRITES = [
    ({"a": 1}, "/a", 2),
    ({"a": 1}, "/b", 2),
    ({}, "/n/0", 5),
    ({}, "/n/-", 5),
    ([1, 2], "/-", 3),
    ([1, 2], "/2", 3),
    ([1, 2], "/1", 3),
    ([1, 2], "/x", 3),
    ({"a": None}, "/a/b", 3),
    ({"a": 5}, "/a/b", 3),
    (None, "", {"z": 1, "a": 2.5}),
    (None, "/q/r", 1),
    ([1], "", {}),
    ("s", "/a", 1),
    (5, "", None),
    ({"a": [{}]}, "/a/0/k", 1),
    ({"a": []}, "/a/0/k", 1),
    ({"a": []}, "/a/-/k", 1),
    (b"not json", "/a", 1),
    (b"not json", "", 1),
    ({"b": 1, "a": {"z": 1, "y": "é\u2028\x01\x7f"}}, "/c", [1.0, 1e20, 1e-7, True, None, 'x"\n']),
    ({"a": 1}, "/a", float("nan")),
]


@pytest.mark.parametrize(("document", "pointer", "value"), WRITES, ids=str)
def test_json_writes(document, pointer, value):
    """What is stored after a write, to the byte."""

    def run(t):
        raw = document if document is None or isinstance(document, bytes) else json.dumps(document).encode()
        context, store = _json_store(t, raw)
        t.open({**J, "json_pointer": pointer}, context=context).result().write(value).result()
        return store.read("a.json").result().value

    _check(run)


RAW = [
    None, b"not json", b"", b" [1, 2] \n", b"[1,NaN]", b'{"a":1,"a":2}', b"\xef\xbb\xbf[1]", b"[1] x", b"\xff",
    b"123456789012345678901234567890", b"18446744073709551615", b"-9223372036854775809", b"1e400",
]  # fmt: skip


@pytest.mark.parametrize("raw", RAW, ids=str)
def test_json_documents(raw):
    """What counts as JSON."""
    _check(lambda t: t.open(J, context=_json_store(t, raw)[0]).result().read().result())


JSONS = [
    {"json_pointer": "/a/1"},
    {"recheck_cached_data": True},
    {"recheck_cached_data": 5},
    {"recheck_cached_data": "open"},
    {"create": True},
    {"rank": 0},
    {"rank": 1},
    {"dtype": "json"},
    {"dtype": "int8"},
    {"schema": {"fill_value": 3}},
    {"metadata": {}},
    {"path": "b"},
    {"recheck_cached_metadata": True},
    {"cache_pool": {"total_bytes_limit": 5}},
    {"transform": {"input_shape": [3], "output": []}},
]


@pytest.mark.parametrize("members", JSONS, ids=str)
def test_json_specs(members):
    """Members of the driver ``json``."""
    _check(lambda t: t.Spec({**J, **members}))
    _check(lambda t: t.Spec({**J, **members}).to_json(include_defaults=True))
    _check(lambda t: t.open({**J, **members}, context=_json_store(t, b"5")[0]).result().spec())


def test_json_handles():
    """Properties, staleness, views and transactions of a JSON value."""

    def run(t):
        context, store = _json_store(t, b'{"a":1}')
        value = t.open({**J, "json_pointer": "/a"}, context=context).result()
        fresh = t.open({**J, "json_pointer": "/a"}, context=context, recheck_cached_data=True).result()
        seen = [value.schema, value.mode, value.url, value[t.newaxis].read().result().tolist(), value]
        seen.append(fresh.read().result())
        store.write("a.json", b'{"a":9}').result()
        seen += [value.read().result(), fresh.read().result()]
        value[None][0:3].write([4, 5, 6]).result()
        seen.append(store.read("a.json").result().value)
        transaction = t.Transaction()
        value.with_transaction(transaction).write("T").result()
        seen += [store.read("a.json").result().value]
        transaction.commit_sync()
        seen += [store.read("a.json").result().value, t.Spec({**J, "json_pointer": "/a b/%"}).url]
        return seen

    _check(run)


def test_json_updates_are_not_lost():
    """Many writers of one document through handles of their own lose nothing."""
    from concurrent.futures import ThreadPoolExecutor

    context, store = _json_store(chunkwise, b"{}")

    def write(i):
        chunkwise.open({**J, "json_pointer": f"/{i}"}, context=context).result().write(i).result()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(100)))
    assert json.loads(store.read("a.json").result().value) == {str(i): i for i in range(100)}


def test_shared_memory():
    """``array`` shares memory both ways, unless told otherwise or byte-swapped."""
    values = np.arange(4)
    store = chunkwise.array(values)
    store[1] = 9
    values[2] = 8
    assert store.read().result().tolist() == [0, 9, 8, 3]
    copy = chunkwise.array(values, copy=True)
    copy[0] = 5
    assert values[0] == 0
    assert chunkwise.array(values.astype(">i8")).read().result().tolist() == [0, 9, 8, 3]
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        chunkwise.array(values, dtype="float64", copy=False)


def test_overlapping_write():
    """A write of a part of the memory to another part of it moves the values that were there."""
    values = np.arange(6)
    store = chunkwise.array(values)
    store[1:].write(values[:-1]).result()
    assert values.tolist() == [0, 0, 1, 2, 3, 4]
    store[[2, 1, 0]].write(values[:3]).result()
    assert values.tolist() == [1, 0, 0, 2, 3, 4]
