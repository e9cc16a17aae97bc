"""Families of random programs: virtual chunks, and reads and writes in batches."""

from __future__ import annotations

from random import Random

from tests.parity.programs.parts import DRIVERS, UNITS, expression, index_of, shape_of

__all__ = ["batches", "computed"]

_TYPES = ("uint8", "int32", "float32", "bool")
_READERS = (
    "lambda d, o, p: (log.append(str(d)), o.__setitem__(..., sum(d.origin) % 7))[1]",
    "lambda d, o, p: o.__setitem__(..., np.indices(d.shape).sum(0))",
    "lambda d, o, p: (log.append(sorted(x for x in dir(p) if x[0] != '_')), o.__setitem__(..., 1))[1]",
    "lambda d, o, p: (log.append((o.shape, o.dtype.name, o.flags.writeable)), o.__setitem__(..., 2))[1]",
    "lambda d, o, p: 1 // 0",
    "lambda d, o, p: (o.__setitem__(..., 4), ts.KvStore.TimestampedStorageGeneration(b'g', 1.0))[1]",
    "lambda d, o: o.__setitem__(..., 1)",
)
_WRITERS = (
    "lambda d, o, p: log.append((str(d), o.tolist()))",
    "lambda d, o, p: log.append((o.shape, o.flags.writeable))",
    "lambda d, o, p: 1 // 0",
    "None",
)


def computed(r: Random) -> list[str]:
    """Virtual chunks: domains that are asked for, caches, transactions, functions that fail."""
    rank = r.randint(0, 3)
    members = [f"dtype=ts.{r.choice(_TYPES)}"]
    members.append(
        r.choice(
            (
                f"shape={shape_of(r, rank, 0, 6)}",
                f"shape={shape_of(r, rank)}",
                f"domain=ts.IndexDomain(inclusive_min={[r.randint(-3, 3) for _ in range(rank)]}, shape={shape_of(r, rank)})",
                f"domain=ts.IndexDomain(rank={rank})",
                f"rank={rank}",
                f"schema=ts.Schema(domain=ts.IndexDomain(shape={shape_of(r, rank)}, labels={r.sample('xyz', rank)}))",
            )
        )
    )
    if r.random() < 0.7:
        members.append(
            f"chunk_layout=ts.ChunkLayout({r.choice(('read_chunk_shape', 'chunk_shape', 'write_chunk_shape'))}={shape_of(r, rank, 1, 4)})"
        )
    for one, chance in (
        (f"dimension_units=[{', '.join(r.choice(UNITS) for _ in range(rank))}]", 0.1),
        ("fill_value=3", 0.05),
        ("context=ts.Context({'cache_pool': {'total_bytes_limit': 100000}})", 0.4),
        (f"recheck_cached_data={r.choice(('True', 'False', '0'))}", 0.2),
        ("transaction=t", 0.15),
        ("loop=None", 0.1),
        ("codec=ts.CodecSpec({'driver': 'zarr3'})", 0.03),
    ):
        if r.random() < chance:
            members.append(one)
    both = r.choice(
        (
            f"{r.choice(_READERS)}",
            f"{r.choice(_READERS)}",
            f"{r.choice(_READERS)}, {r.choice(_WRITERS)}",
            f"None, {r.choice(_WRITERS)}",
            f"write_function={r.choice(_WRITERS)}",
        )
    )
    steps = [
        "log = []",
        "t = ts.Transaction()",
        f"a = ts.virtual_chunked({both}, {', '.join(members)})",
        "a",
        "a.schema",
        "a.chunk_layout",
        "(a.readable, a.writable)",
    ]
    for _ in range(r.randint(1, 4)):
        steps.append(
            r.choice(
                (
                    "a.read().result()",
                    f"a[{index_of(r, rank)}].read().result()",
                    f"a[{expression(r, rank)}].read().result()",
                    f"a[{index_of(r, rank)}].write({r.randint(0, 1)}).result()",
                    f"a.with_transaction(t)[{index_of(r, rank)}].write(1).result()",
                    "a.resolve().result().domain",
                    f"a[{expression(r, rank)}].chunk_layout",
                    "sorted(map(str, log))",
                )
            )
        )
    return [
        *steps,
        "sorted(map(str, log))",
        r.choice(
            (
                "t.commit_sync()",
                "a.spec()",
                f"a.resize(exclusive_max={shape_of(r, rank)}).result()",
                "a.kvstore",
                "a.storage_statistics(query_not_stored=True).result()",
                "ts.downsample(a, [1] * a.rank, 'mean').read().result()",
                "ts.cast(a, ts.float64).read().result()",
                "ts.stack([a]).read().result()",
                "a.base",
            )
        ),
        "sorted(map(str, log))",
    ]


def batches(r: Random) -> list[str]:
    """Reads of arrays and keys in a batch, which is submitted, left, or made implicitly."""
    rank, driver = r.randint(1, 2), r.choice(DRIVERS)
    store = r.choice(("'memory://a/'", "{'driver': 'file', 'path': D + '/a/'}", "'memory://o/|ocdbt:a/'"))
    inner = r.random() < 0.4 and driver == "zarr3"
    chunk = shape_of(r, rank, 1, 3)
    layout = (
        f"read_chunk_shape={chunk}, write_chunk_shape={[2 * n for n in chunk]}"
        if inner
        else f"chunk_shape={chunk}"
    )
    steps = [
        "c = ts.Context()",
        f"k = {{'driver': '{driver}', 'kvstore': {store}}}",
        f"a = ts.open(k, context=c, create=True, dtype='uint16', shape={shape_of(r, rank)}, chunk_layout=ts.ChunkLayout({layout})).result()",
        "a[...].write(5).result()",
        "b = ts.Batch()",
        "b",
    ]
    pending = []
    for i in range(r.randint(1, 4)):
        name = f"f{i}"
        steps.append(
            r.choice(
                (
                    f"{name} = a[{index_of(r, rank)}].read(batch=b)",
                    f"{name} = a[{expression(r, rank)}].read(batch=b)",
                    f"{name} = a.kvstore.read({r.choice(('zarr.json', '.zarray', 'c/0', '0', 'none'))!r}, batch=b)",
                    f"{name} = ts.open(k, context=c, batch=b)",
                    f"{name} = a.storage_statistics(query_not_stored=True, batch=b)",
                    f"{name} = a.resolve(batch=b)",
                    f"{name} = a[{index_of(r, rank)}].read(batch=None)",
                    f"{name} = ts.KvStore.open({store}, context=c).result().read('c/0', batch=b)",
                )
            )
        )
        pending.append(name)
    steps += [r.choice(("b.submit()", "b.submit()", "b.__enter__()", "b.__exit__(None, None, None)"))]
    if steps[-1] == "b.__enter__()":
        steps.append("b.__exit__(None, None, None)")
    steps += [f"{name}.result() if not hasattr({name}.result(), 'value') else {name}.result().value" for name in r.sample(pending, len(pending))]  # fmt: skip
    return [
        *steps,
        r.choice(
            (
                "b.submit()",
                f"a[{index_of(r, rank)}].read(batch=b).result()",
                "a.write(1, batch=b)",
                "b == b",
                "a.read(batch=1)",
                "hash(b) == hash(b)",
            )
        ),
        "a.read().result()",
    ]
