"""Families of random programs over several open handles of one array, and over specs that are read back."""

from __future__ import annotations

from random import Random

__all__ = ["handles", "reopened"]

_STORES = ("'memory://a/'", "{'driver': 'file', 'path': D + '/a/'}", "'memory://o/|ocdbt:a/'")
_INDEXES = ("0", "1:4", "...", "0:3,0:4", "[0,5],[1,2]", ":,5", "3:6,4:8")


def handles(r: Random) -> list[str]:
    """Handles with and without caches and transactions: writes, resizes, attributes, replacements."""
    driver, store = r.choice(("zarr", "zarr3", "n5")), r.choice(_STORES)
    spec = f"{{'driver': {driver!r}, 'kvstore': {store}}}"
    layout = "shape=[6, 8], chunk_layout=ts.ChunkLayout(chunk_shape=[3, 4])"
    checks = r.choice(("True", "False", "'open'"))
    steps = [
        f"c = ts.Context({{'cache_pool': {{'total_bytes_limit': {r.choice((0, 10**6))}}}}})",
        f"a = ts.open({spec}, context=c, create=True, dtype='int32', {layout}).result()",
        "a[1:3].write(5).result()",
        f"b = ts.open({spec}, context=c, recheck_cached={checks}).result()",
        f"t = ts.Transaction({r.choice(('', '', 'atomic=False'))})",
        "x = a.with_transaction(t)",
        f"y = {r.choice(('b.with_transaction(t)', f'ts.open({spec}, context=c, transaction=t).result()'))}",
    ]
    for _ in range(r.randint(2, 7)):
        one, value, index = r.choice("abxy"), r.randint(0, 9), r.choice(_INDEXES)
        size = [r.choice((3, 6, 9, None)), r.choice((4, 8, 12, None))]
        steps.append(
            r.choice(
                (
                    f"{one}[{index}].write({value}).result()",
                    f"{one}[{index}].write({value}).result()",
                    f"{one}[{index}].read().result()",
                    f"{one}.resolve().result().read().result()",
                    f"{one}.resize(exclusive_max={size}).result()",
                    f"{one}.resolve().result()",
                )
            )
        )
        if r.random() < 0.1:
            dtype, where = r.choice(("int32", "float64")), r.choice(("", ", transaction=t"))
            options = f"context=c, create=True, delete_existing=True, dtype={dtype!r}, {layout}{where}"
            steps.append(f"d = ts.open({spec}, {options}).result()")
    steps += [r.choice(("t.commit_sync()", "t.commit_sync()", "t.abort()"))]
    again = f"ts.open({spec}, context=c, recheck_cached=True).result()"
    return [*steps, "a.resolve().result().domain", "b.resolve().result()", f"{again}.read().result()"]


def reopened(r: Random) -> list[str]:
    """Specs and URLs of arrays, made from JSON again: they open what they were made of."""
    driver = r.choice(("zarr", "zarr3", "n5"))
    options = f"context=c, create=True, dtype={r.choice(('int16', 'float32'))!r}, shape=[6, 8]"
    steps = [
        "c = ts.Context()",
        f"m = ts.open({{'driver': {driver!r}, 'kvstore': {r.choice(_STORES)}}}, {options}).result()",
        "m[1:3, 2:].write(5).result()",
        r.choice(("a = m", "a = ts.array(np.arange(48, dtype='int16').reshape(6, 8))")),
    ]
    layers = {
        "view": "a = a[1:5]",
        "strides": "a = a[::-2]",
        "labels": "a = a[ts.d[:].label['x', 'y']]",
        "cast": f"a = ts.cast(a, {r.choice(('float64', 'int32'))!r})",
        "downsample": f"a = ts.downsample(a, [2] + [1] * (a.rank - 1), {r.choice(('max', 'mean', 'stride'))!r})",
        "stack": "a = ts.stack([a, a])",
        "concat": "a = ts.concat([a.translate_to[0], a.translate_to[0]], axis=0)",
        "overlay": "a = ts.overlay([a])",
    }
    for name in r.choices(list(layers), k=r.randint(1, 3)):
        steps.append(layers[name])
    minimal = r.choice(("", "minimal_spec=True"))
    return [
        *steps,
        f"j = a.spec({minimal}).to_json()",
        "s = ts.Spec(json.loads(json.dumps(j)))",
        "s.to_json() == ts.Spec(s.to_json()).to_json()",
        "(s.rank, s.dtype)",
        "b = ts.open(s, context=c).result()",
        "b.domain == a.domain",
        "b.read().result()",
        "u = m.url",
        "ts.open(u, context=c).result().read().result()",
        "ts.Spec(u).to_json()",
    ]
