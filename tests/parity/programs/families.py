"""Families of random programs: each function returns the steps of one, made from a random generator."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.parity.programs.computed import batches, computed
from tests.parity.programs.formats import codecs, images, pipelines, precomputed
from tests.parity.programs.handles import handles, reopened
from tests.parity.programs.parts import (
    DRIVERS,
    SMALL,
    TYPES,
    UNITS,
    expression,
    index_of,
    shape_of,
    values_of,
)

__all__ = ["FAMILIES"]


def _layout(r: Random, rank: int) -> str:
    members: dict[str, Any] = {}
    if r.random() < 0.3:
        members["rank"] = rank
    if r.random() < 0.3:
        members["inner_order" + r.choice(("", "_soft_constraint"))] = r.sample(range(rank), rank)
    if r.random() < 0.2:
        members["grid_origin" + r.choice(("", "_soft_constraint"))] = [
            r.choice((0, 0, 1, None)) for _ in range(rank)
        ]
    for usage in ("write_chunk", "read_chunk", "codec_chunk", "chunk"):
        if r.random() < 0.35:
            inner: dict[str, Any] = {}
            soft = r.choice(("", "_soft_constraint"))
            if r.random() < 0.7:
                inner["shape" + soft] = [r.choice((0, 1, 2, 4, 5, -1)) for _ in range(rank)]
            if r.random() < 0.3:
                inner["aspect_ratio" + soft] = [r.choice((0, 1, 2, 1.5)) for _ in range(rank)]
            if r.random() < 0.3:
                inner["elements" + soft] = r.choice((1, 8, 100, 1000))
            members[usage] = inner
    return f"ts.ChunkLayout({members!r})"


def layouts(r: Random) -> list[str]:
    """Constraints on chunks, merged in some order and seen through transforms."""
    rank = r.randint(1, 3)
    steps = [f"a = {_layout(r, rank)}", f"b = {_layout(r, rank)}"]
    shape = [r.choice((0, 1, 2, 4, -1)) for _ in range(rank)]
    keyword = r.choice(
        (
            "read_chunk_shape",
            "write_chunk_shape",
            "chunk_shape",
        )
    )
    change = r.choice(
        (
            "a.update(b)",
            "a.update(ts.ChunkLayout(b, finalize=True))",
            f"a.update({keyword}={shape})",
            f"a.update({keyword}={shape}, chunk_elements={r.choice((1, 64, 1000))})",
            f"a.update(inner_order={r.sample(range(rank), rank)})",
        )
    )
    steps += [
        change,
        "a",
        "a.rank",
        "a.to_json()",
        "a.read_chunk.shape",
        "a.write_chunk.elements",
        "a.inner_order",
    ]
    steps += [
        f"ts.Schema(rank={rank}, chunk_layout=a)[{expression(r, rank)}]",
        "a == b",
        "a.read_chunk_template",
    ]
    return steps


def _schema_member(r: Random, rank: int) -> str:
    return r.choice(
        (
            f"dtype=ts.{r.choice(TYPES)}",
            f"rank={r.choice((rank, rank, rank + 1))}",
            f"shape={shape_of(r, rank)}",
            f"fill_value={r.choice((0, 1, 3, 7.5, True))}",
            f"dimension_units=[{', '.join(r.choice(UNITS) for _ in range(rank))}]",
            f"chunk_layout={_layout(r, rank)}",
            f"domain=ts.IndexDomain(labels={r.sample('xyzw', rank)})",
            f"domain=ts.IndexDomain(shape={shape_of(r, rank)}, labels={r.sample(['x', 'y', 'z', ''], rank)})",
            "codec=ts.CodecSpec({'driver': 'zarr3', 'codecs': [{'name': 'gzip'}]})",
            "codec=ts.CodecSpec({'driver': 'zarr', 'compressor': {'id': 'zlib', 'level': 3}})",
            "codec=ts.CodecSpec({'driver': 'n5', 'compression': {'type': 'raw'}})",
        )
    )


def schemas(r: Random) -> list[str]:
    """Schemas that are merged, seen through transforms, and used to create arrays."""
    rank, driver = r.randint(1, 3), r.choice(DRIVERS)
    some = [_schema_member(r, rank) for _ in range(r.randint(0, 3))]
    steps = [f"s = ts.Schema({', '.join({m.partition('=')[0]: m for m in some}.values())})"]
    steps += [f"s.update({_schema_member(r, rank)})" for _ in range(r.randint(0, 2))]
    steps += ["s", "s.rank", "s.domain", "s.fill_value", "s.dimension_units", f"s[{expression(r, rank)}]"]
    spec = {"driver": driver, "kvstore": "memory://a/"}
    steps += [f"spec = ts.Spec({spec!r})", "spec.update(schema=s)", "spec", "spec.chunk_layout"]
    steps += [
        f"t = ts.open(spec, create=True, dtype=s.dtype or ts.{r.choice(TYPES)}, "
        f"shape=None if s.domain is not None else {shape_of(r, rank)}).result()",
        "t.schema",
        "t.spec()",
    ]
    return steps


def _array(r: Random, dtype: str | None = None, rank: int | None = None) -> str:
    shape = shape_of(r, r.randint(1, 3) if rank is None else rank, 1, 5)
    return f"ts.array({values_of(r, shape, dtype or r.choice(TYPES))})"


def stacks(r: Random) -> list[str]:
    """Layers put together in each way, read and written in parts."""
    rank, dtype = r.randint(1, 2), r.choice(TYPES)
    shape = shape_of(r, rank, 1, 4)
    layers = []
    for i in range(r.randint(1, 4)):
        own = shape if r.random() < 0.7 else shape_of(r, rank, 1, 4)
        layer = f"ts.array({values_of(r, own, dtype if r.random() < 0.95 else r.choice(TYPES))})"
        layers.append(f"a{i} = {layer}" + (f"[{expression(r, rank)}]" if r.random() < 0.4 else ""))
    names = ", ".join(f"a{i}" for i in range(len(layers)))
    axis = r.choice((0, 0, rank - 1, -1, rank))
    label = r.choice(("'a'", "'b'", str(axis)))
    options = r.choice(("", "", f", domain=ts.IndexDomain(shape={shape_of(r, rank)})", f", dtype=ts.{dtype}"))
    made = r.choice(
        (
            f"ts.overlay([{names}]{options})",
            f"ts.stack([{names}], axis={axis})",
            f"ts.concat([{names}], axis={label})",
        )
    )
    index = index_of(r, rank)
    return [
        *layers,
        f"s = {made}",
        "s.domain",
        "s.read().result()",
        f"s[{index}].read().result()",
        f"s[{index}].write({r.choice((0, 1, 4))}).result()",
        "a0.read().result()",
        "s.chunk_layout",
        "s.schema",
    ]


def casts(r: Random) -> list[str]:
    """Arrays seen, and written, as another type."""
    source, target = r.choice(TYPES), r.choice(TYPES)
    steps = [
        f"a = {_array(r, source)}",
        f"c = ts.cast(a, ts.{target})",
        "c.domain",
        "c.schema",
        "c.read().result()",
    ]
    steps += [
        f"c[{index_of(r, 2)}].read().result()",
        f"c.write({r.choice((0, 1, 3))}).result()",
        "a.read().result()",
    ]
    steps += [
        f"ts.cast(ts.Spec({{'driver': 'zarr3', 'kvstore': 'memory://', 'dtype': '{source}'}}), ts.{target})"
    ]
    return steps


def downsampled(r: Random) -> list[str]:
    """Each method over each type, also of regions and shifted domains."""
    dtype, rank = r.choice((*TYPES, *SMALL)), r.randint(1, 2)
    shape = shape_of(r, rank, 1, 7)
    factors = [r.choice((1, 2, 2, 3)) for _ in range(rank)]
    method = r.choice(("stride", "mean", "min", "max", "median", "mode"))
    steps = [f"a = ts.array({values_of(r, shape, dtype)})"]
    if r.random() < 0.5:
        steps.append(f"a = a[{expression(r, rank)}]")
    steps += [f"d = ts.downsample(a, {factors}, {method!r})", "d.domain", "d.read().result()", "d.schema"]
    return [*steps, f"d[{index_of(r, rank)}].read().result()", "d.spec()"]


def stored(r: Random) -> list[str]:
    """Arrays in files and memory: partial writes, reads, resizing and specs."""
    rank, driver = r.randint(1, 3), r.choice(DRIVERS)
    dtype = r.choice([t for t in TYPES if t not in ("bool", "complex64", "float16", "bfloat16")])
    kvstore = r.choice(("'memory://a/'", "{'driver': 'file', 'path': D + '/a/'}", "'memory://a.zip|zip:x/'"))
    shape, chunk = shape_of(r, rank), shape_of(r, rank, 1, 4)
    steps = [
        "c = ts.Context()",
        f"k = {{'driver': {driver!r}, 'kvstore': {kvstore}}}",
        f"a = ts.open(k, context=c, create=True, dtype=ts.{dtype}, shape={shape}, "
        f"chunk_layout=ts.ChunkLayout(chunk_shape={chunk})).result()",
    ]
    for _ in range(r.randint(1, 5)):
        size = shape_of(r, rank, 0, 7)
        steps.append(
            r.choice(
                (
                    f"a[{index_of(r, rank)}].write({r.randint(0, 9)}).result()",
                    f"a[{index_of(r, rank)}].read().result()",
                    f"a.resize(exclusive_max={size}{r.choice(('', '', ', expand_only=True', ', shrink_only=True', ', resize_metadata_only=True'))}).result()",
                    "a.resolve().result().domain",
                    "ts.open(k, context=c).result().read().result()",
                    f"a[{expression(r, rank)}].read().result()",
                    "a.storage_statistics(query_not_stored=True, query_fully_stored=True).result().fully_stored",
                )
            )
        )
    return [
        *steps,
        "ts.open(k, context=c).result().read().result()",
        "a.spec()",
        "a.spec(minimal_spec=True)",
        "a.schema",
    ]


def transactions(r: Random) -> list[str]:
    """Reads and writes in transactions of each kind, committed and aborted."""
    driver, store = (
        r.choice(DRIVERS),
        r.choice(("'memory://a/'", "{'driver': 'file', 'path': D + '/a/'}", "'memory://o/|ocdbt:a/'")),
    )
    kind = r.choice(("", "atomic=True", "repeatable_read=True"))
    steps = [
        "c = ts.Context()",
        f"a = ts.open({{'driver': {driver!r}, 'kvstore': {store}}}, context=c, create=True, dtype='int32', "
        "shape=[6, 6], chunk_layout=ts.ChunkLayout(chunk_shape=[3, 4])).result()",
        "a[1:3].write(5).result()",
        f"t = ts.Transaction({kind})",
        "b = a.with_transaction(t)",
    ]
    for _ in range(r.randint(1, 4)):
        index = r.choice(("0", "1:4", "...", "0:3,0:4", "[0,5],[1,2]", ":,5"))
        steps.append(
            r.choice(
                (
                    f"b[{index}].write({r.randint(0, 9)}).result()",
                    f"b[{index}].read().result()",
                    f"a[{index}].read().result()",
                )
            )
        )
    steps += [
        r.choice(("t.commit_sync()", "t.commit_async().result()", "t.abort()")),
        "t.open",
        "a.read().result()",
    ]
    return [*steps, "b.read().result()", "b[0].write(1).result()"]


def keys(r: Random) -> list[str]:
    """Operations on key-value stores."""
    store = r.choice(
        (
            "'memory://m/'",
            "{'driver': 'file', 'path': D + '/k/'}",
            "'memory://o/|ocdbt:'",
            "'memory://z.zip|zip:'",
        )
    )
    names = ("a", "b", "a/b", "a/c", "d/e/f", "é", "a0")
    steps = [f"k = ts.KvStore.open({store}).result()", "k.write('a', b'xyz').result().generation != b''"]
    for _ in range(r.randint(2, 7)):
        key, low, high = r.choice(names), r.choice(names), r.choice((*names, ""))
        steps.append(
            r.choice(
                (
                    f"k.write({key!r}, {bytes(r.choice(range(97, 123)) for _ in range(r.randint(0, 5)))!r}).result().generation != b''",
                    f"k.read({key!r}).result().value",
                    f"k.read({key!r}).result().state",
                    f"k.read({key!r}, byte_range=slice({r.randint(0, 3)}, {r.choice((None, 1, 2, 9))})).result().value",
                    f"k[{key!r}]",
                    "sorted(k.list().result())",
                    f"sorted(k.list(ts.KvStore.KeyRange({low!r}, {high!r})).result())",
                    f"k.delete_range(ts.KvStore.KeyRange({low!r}, {high!r})).result()",
                    f"k.write({key!r}, None).result().generation != b''",
                    f"k.write({key!r}, b'c', if_equal=k.read({key!r}).result().stamp.generation).result().generation != b''",
                    f"k.write({key!r}, b'd', if_equal=b'\\x02').result().generation != b''",
                    f"sorted((k / {key!r}).list().result())",
                    f"sorted(k.list(ts.KvStore.KeyRange({low!r}), strip_prefix_length={r.randint(0, 3)}).result())",
                    "k.experimental_copy_range_to(k / 'q/').result()",
                )
            )
        )
    return [*steps, "sorted(k.list().result())", "k.spec().to_json().get('driver')", "k.url"]


def specs(r: Random) -> list[str]:
    """Specs of open arrays and of URLs: options, updates, and the way back."""
    driver, rank = r.choice(DRIVERS), r.randint(1, 2)
    url = r.choice(
        (
            "memory://a/b/|zarr3:",
            "memory://a|zarr2:",
            "file:///d/a|n5:",
            "memory://x.zip|zip:p/q|zarr3:",
            "memory://a|json:/p/q",
            "memory://o|ocdbt:@v5/p",
            "memory://o/|ocdbt:p/|zarr3:",
            "http://h/a/|zarr2:",
            "gs://b/p/|zarr3:",
            "s3://b/p|n5:",
            "memory://i|png:",
            "memory://u/|neuroglancer-precomputed:",
            "memory://a/|zarr3:x/y",
            "memory://",
            "memory://a%20b/|zarr3:",
            "file:///a//b|zarr3:",
            "memory://a?x=1|zarr3:",
            "memory://a#b|zarr3:",
            "|zarr3:",
            "memory:||zarr3:",
            "foo://a|zarr3:",
        )
    )
    steps = [f"u = ts.Spec({url!r})", "u", "u.url", "u.rank", "u.dtype", "u.domain"]
    if r.random() < 0.6:
        steps = [
            f"a = ts.open({{'driver': {driver!r}, 'kvstore': 'memory://a/'}}, create=True, dtype='uint16', "
            f"shape={shape_of(r, rank)}).result()[{index_of(r, rank)}]",
            f"u = a.spec({r.choice(('', 'minimal_spec=True', 'retain_context=True', 'unbind_context=True', 'open_mode=ts.OpenMode(create=True)'))})",
        ]
        for _ in range(r.randint(0, 2)):
            steps.append(
                f"u.update({r.choice((_schema_member(r, rank), 'open=True', 'create=True', 'delete_existing=True', 'recheck_cached=False', 'unbind_context=True'))})"
            )
        steps += ["u.to_json()", "u.rank", "u.open_mode", "u.chunk_layout", "u.fill_value", "u.url"]
    return [*steps, "ts.Spec(u.to_json()).to_json() == u.to_json()", f"u[{expression(r, rank)}]"]


def documents(r: Random) -> list[str]:
    """Values in JSON documents."""
    value = r.choice(
        (
            "1",
            "1.5",
            "'x'",
            "None",
            "True",
            "[1, 2]",
            "{'a': 1}",
            "{'a': [1, {'b': 2}]}",
            "b'x'",
            "{1: 2}",
            "float('nan')",
            "np.int64(3)",
            "(1, 2)",
            "2**63",
            "-2**63",
            "1e300",
            "np.float32(1.5)",
        )
    )
    pointer = r.choice(("", "/a", "/a/0", "/b", "/a/b", "/a/-", "/a/1", "/a~1b", "/"))
    text = r.choice((b"{}", b"[1,2]", b'{"a":[1,2]}', b'{"a":{"b":3}}', b"7", b"{", b""))
    return [
        "c = ts.Context()",
        "k = ts.KvStore.open('memory://j', context=c).result()",
        f"k.write('', {text!r}).result().generation != b''",
        f"j = ts.open({{'driver': 'json', 'kvstore': 'memory://j', 'json_pointer': {pointer!r}}}, context=c).result()",
        "j",
        "j.read().result().tolist()",
        f"j.write({value}).result()",
        "k[''].decode()",
        "j.read().result().tolist()",
        "j.schema",
        "j.spec()",
    ]


FAMILIES: dict[str, Callable[[Random], list[str]]] = {
    f.__name__: f
    for f in (
        layouts,
        schemas,
        codecs,
        stacks,
        casts,
        downsampled,
        computed,
        stored,
        transactions,
        handles,
        reopened,
        batches,
        keys,
        pipelines,
        specs,
        documents,
        images,
        precomputed,
    )
}
