"""Opens, reads and writes mutated arrays: ``mutation_worker.py SEED COUNT`` prints what went wrong as JSON.

A process of its own, since what it looks for includes crashes, and memory is limited by the system.  Each
case changes one stored document or chunk of a small array.  It must give a typed error or go well, within
a second of processor time, and take no more memory than four times what the array declares.
"""

from __future__ import annotations

import base64
import json
import random
import re
import resource
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "ocdbt"))
from ocdbt_mutations import frames, mutated

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}


def _v3(name, **configuration):
    return {"name": name, "configuration": configuration}


SHARDED = _v3(
    "sharding_indexed",
    chunk_shape=[4, 3],
    codecs=[LITTLE, _v3("zstd", level=1)],
    index_codecs=[LITTLE, {"name": "crc32c"}],
)
BARE_SHARDS = _v3(
    "sharding_indexed", chunk_shape=[4, 3], codecs=[LITTLE], index_codecs=[LITTLE], index_location="start"
)
BLOSC2 = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}

BASES = {
    **{
        f"n5 {type}": ("n5", "uint16", {"compression": {"type": type, **options}})
        for type, options in (
            ("raw", {}),
            ("gzip", {}),
            ("bzip2", {}),
            ("xz", {}),
            ("lz4", {}),
            ("zstd", {}),
            ("blosc", {"cname": "zstd", "clevel": 1, "shuffle": 1}),
        )
    },
    "n5 string": ("n5", "ustring", {"compression": {"type": "gzip"}}),
    **{
        f"zarr {c and c['id']}": ("zarr", "int32", {"compressor": c})
        for c in (None, BLOSC2, *({"id": name} for name in ("zlib", "gzip", "bz2", "zstd", "lz4", "lzma")))
    },
    "zarr delta": (
        "zarr",
        "int32",
        {"dtype": ">i4", "order": "F", "filters": [{"id": "delta", "dtype": ">i4"}]},
    ),
    "zarr text": ("zarr", "ustring", {"dtype": "|O", "filters": [{"id": "vlen-utf8"}]}),
    "zarr json": ("zarr", "json", {"dtype": "|O", "filters": [{"id": "json2"}]}),
    "zarr1": ("zarr1", "int32", {}),
    **{
        f"zarr3 {i}": ("zarr3", dtype, {"codecs": codecs})
        for i, (dtype, codecs) in enumerate(
            (
                ("uint16", [BIG]),
                ("uint16", [LITTLE, _v3("zstd", level=1, checksum=True)]),
                ("uint16", [LITTLE, _v3("gzip", level=1), {"name": "crc32c"}]),
                (
                    "uint16",
                    [LITTLE, _v3("blosc", cname="lz4", clevel=1, shuffle="shuffle", typesize=2, blocksize=0)],
                ),
                ("uint16", [_v3("transpose", order=[1, 0]), LITTLE, {"name": "crc32c"}]),
                ("uint16", [SHARDED]),
                ("uint16", [BARE_SHARDS]),
                ("bool", [{"name": "packbits"}]),
                ("ustring", [{"name": "vlen-utf8"}, _v3("zstd", level=1)]),
                ("float32", [_v3("bitround", keepbits=10), LITTLE]),
                ("complex64", [BIG, _v3("numcodecs.zlib", level=1)]),
            )
        )
    },
    "zarr3 rectilinear": (
        "zarr3",
        "uint16",
        {"chunk_grid": _v3("rectilinear", kind="inline", chunk_shapes=[[8, [1, 2]], 6]), "codecs": [LITTLE]},
    ),
}
SHAPE, CHUNKS = [10, 7], [8, 6]
DATABASE = {"compression": None, "max_decoded_node_bytes": 100, "version_tree_arity_log2": 1}
VALUES = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63, 2**64, 10**30),
    *(-(2**63), 0.5, 1e308, float("nan"), float("inf"), "", "x", "a/../b", "\x00", "\ud800", "é" * 300),
    *("uint8", "<f8", "|O", "|S99999999", "r8", "<M8[ns]", "float64", "string", "raw", "zstd", "C"),
    *([], [[]], [0], [-1, 2], [1] * 40, [2**40, 2**40], [2, 3], [{"name": "bytes"}]),
    *({}, {"name": "x"}, {"name": "bytes"}, {"id": "zlib", "level": 99}, {"type": "gzip"}),
    *([["a", "<i4"], ["b", "|V99999999"]], {"must_understand": False}),
]
# What decoders need for themselves, however small the data: the windows that their streams ask for.
# Of text only the stored size is known, of which Blosc can make 32768 times as much.
WINDOWS = {
    "n5 xz": 100 << 20,
    "zarr lzma": 100 << 20,
    "n5 bzip2": 8 << 20,
    "zarr bz2": 8 << 20,
    "zarr text": 32 << 20,
    "zarr json": 32 << 20,
}
WORDS = [
    b"\xff" * 8,
    b"\0" * 8,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\xff\xff",
    b"\0\1",
    b"\0\2",
    b"\0\0\0\x02",
]


def make_bases():
    """Return the keys and values of each base array."""
    made = {}
    rng = np.random.default_rng(0)
    for name, (driver, dtype, metadata) in BASES.items():
        context = ts.Context()
        url = "memory://a/"
        spec = {"driver": driver, "kvstore": url, "metadata": metadata}
        if driver == "zarr3":
            spec["metadata"] = {"chunk_grid": _v3("regular", chunk_shape=CHUNKS), **metadata}
        else:
            spec["schema"] = {"chunk_layout": {"chunk": {"shape": CHUNKS}}}
        store = ts.open(spec, create=True, dtype=dtype, shape=SHAPE, context=context).result()
        numbers = rng.integers(0, 50, SHAPE)
        if dtype == "ustring":
            values = np.array([f"text {n}" for n in numbers.flat], object).reshape(SHAPE)
        elif dtype == "json":
            values = np.array([{"n": int(n)} for n in numbers.flat], object).reshape(SHAPE)
        else:
            values = numbers.astype(dtype)
        store.write(values).result()
        kv = ts.KvStore.open(url, context=context).result()
        made[name] = driver, {key: kv.read(key).result().value for key in kv.list().result()}
    made["ocdbt"] = "auto", make_database(made["zarr3 0"][1])
    return made


def make_database(items):
    """Return the keys and values of a database that has `items`."""
    context = ts.Context()
    spec = {"driver": "ocdbt", "base": "memory://a/", "config": DATABASE}
    kv = ts.KvStore.open(spec, context=context).result()
    for key, value in items.items():
        kv.write(key, value).result()
    below = ts.KvStore.open("memory://a/", context=context).result()
    return {key: below.read(key).result().value for key in below.list().result()}


def nodes(value, path=()):
    """Yield the path of every value in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from nodes(item, (*path, key))


def mutate_document(raw, rng):
    """Change one or two values, or bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(raw, rng)
    document = json.loads(raw)
    for _ in range(rng.choice((1, 1, 2))):
        places = [p for p in nodes(document) if p]
        if not places:
            break
        *above, last = rng.choice(places)
        parent = document
        for key in above:
            parent = parent[key]
        action = rng.random()
        if action < 0.12:
            del parent[last]
        elif action < 0.2 and isinstance(parent, dict):
            parent[rng.choice(("x", "name", "id", "type", "codecs", "configuration"))] = rng.choice(VALUES)
        elif action < 0.3 and isinstance(parent, list):
            parent.insert(last, rng.choice((parent[last], rng.choice(VALUES))))
        elif action < 0.4:
            parent[last] = None
            parent[last] = json.loads(json.dumps(document))
        else:
            parent[last] = rng.choice(VALUES)
    return json.dumps(document).encode()


def mutate_bytes(raw, rng):
    """Flip, overwrite, insert, cut or repeat bytes."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1) if rng.random() < 0.6 else min(rng.randrange(24), len(data))
        action = rng.randrange(7)
        if action == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            word = rng.choice(WORDS)
            data[at : at + len(word)] = word
        elif action == 2:
            del data[at:]
        elif action == 3:
            del data[at : at + rng.randrange(1, 9)]
        elif action == 4:
            data[at:at] = rng.randbytes(rng.randrange(1, 17))
        elif action == 5:
            data[at : at + 4] = rng.randbytes(4)
        else:
            data += data[at:]
    return bytes(data)


def attempt(driver, keys):
    """Open, read and change an array; return the bytes that it may take."""
    allowed = 1 << 20
    context = ts.Context({"data_copy_concurrency": {"limit": 1}})
    kv = ts.KvStore.open("memory://a/", context=context).result()
    for key, value in keys.items():
        kv.write(key, value).result()
    stored = sum(map(len, keys.values()))
    allowed += 200 * stored  # text as Python objects, parsed documents
    # An element of the type that metadata name, such as the fill value, is made before the rest is looked at.
    sizes = re.findall(rb'[<>|]([SUV])([0-9]{1,9})"', b"".join(keys.values()))
    allowed += 2 * max((int(n) * (4 if kind == b"U" else 1) for kind, n in sizes), default=0)
    try:
        store = ts.open({"driver": driver, "kvstore": "memory://a/"}, context=context).result()
        itemsize = store.dtype.numpy_dtype.itemsize or 1
        view = store[tuple(slice(0, min(n, 20)) for n in store.shape)] if store.size > 1 << 20 else store
        chunk = store._array.stored.chain.item.nbytes  # of a rectilinear grid the first
        allowed += 4 * (itemsize * view.size + chunk)
        if itemsize * view.size > 1 << 30:
            return allowed  # so much is what a reader would ask for, and gets or not
        got = view.read().result()
        assert got.shape == view.shape, (got.shape, view.shape)
        if view.size:
            corner = tuple(n - 1 for n in view.shape)
            view[corner] = got[corner]
        store.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    except ChunkwiseError:
        pass
    return allowed


def measured(driver, keys):
    """Return the processor time, the bytes taken, the bytes allowed and the error of an attempt."""
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    start = time.process_time()
    allowed, error = 0, None
    try:
        allowed = attempt(driver, keys)
    except BaseException as e:
        error = f"{type(e).__name__}: {str(e)[:300]}"
    return time.process_time() - start, tracemalloc.get_traced_memory()[1] - before, allowed, error


def run(seed, count):
    """Return a list of what went wrong."""
    warnings.simplefilter("error")
    bases = make_bases()
    for driver, keys in bases.values():
        attempt(driver, keys)  # so that every codec is loaded
    names = sorted(bases)
    wrong = []
    tracemalloc.start()
    for i in range(count):
        rng = random.Random(f"{seed}/{i}")
        name = names[i % len(names)]
        driver, keys = bases[name]
        keys = dict(keys)
        document = next((k for k in keys if k.endswith(b"json") or k in (b".zarray", b"meta")), None)
        if document is None:
            key = rng.choice(sorted(k for k in keys if frames(keys[k])))
            keys[key] = mutated(keys[key], rng)
        elif rng.random() < 0.5:
            key = document
            keys[key] = mutate_document(keys[key], rng)
        else:
            key = rng.choice(sorted(k for k in keys if k not in (document, b"attrs")))
            keys[key] = mutate_bytes(keys[key], rng)
        shown = {
            "case": f"{seed}/{i}",
            "base": name,
            "key": key.decode(),
            "value": base64.b64encode(keys[key]).decode(),
        }
        took, peak, allowed, error = measured(driver, keys)
        if error is None and peak > allowed + WINDOWS.get(name, 0):
            took, peak, allowed, error = measured(driver, keys)  # the first time may load modules
        if error is not None:
            wrong.append({**shown, "error": error})
            continue
        if took > 1:
            wrong.append({**shown, "error": f"took {took:.1f} s"})
        allowed += WINDOWS.get(name, 0)
        if peak > allowed:
            wrong.append({**shown, "error": f"took {peak} bytes, of {allowed}"})
        if took > 0.3 or peak > allowed:
            print(shown, took, peak, file=sys.stderr, flush=True)
    return wrong


if __name__ == "__main__":
    limit = 6 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))
