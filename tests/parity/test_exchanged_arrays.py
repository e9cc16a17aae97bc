"""Arrays that TensorStore and chunkwise write in turns: each reads what the other has written.

The codecs, types, chunks and stores are random, seeded by the date; RANDOM_SEED chooses others.
"""

from __future__ import annotations

import os
from datetime import date
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import tensorstore

import chunkwise

SEED = os.environ.get("RANDOM_SEED", date.today().isoformat())
DTYPES = ("bool", "int8", "uint8", "int16", "uint32", "int64", "float16", "float32", "float64", "complex64")
STORES = ("file", "zip", "ocdbt", "ocdbt")
LEVELS = ({"name": "gzip", "configuration": {"level": 1}}, {"name": "zstd", "configuration": {"level": 3}})


def _blosc(r: Random) -> dict[str, Any]:
    cname = r.choice(("lz4", "zstd", "zlib", "blosclz", "lz4hc"))
    return {
        "cname": cname,
        "clevel": r.randint(0, 9),
        "shuffle": r.choice((0, 1, 2)),
        "blocksize": r.choice((0, 64)),
    }


def _zarr3(r: Random, rank: int) -> list[Any]:
    blosc = _blosc(r)
    blosc["shuffle"] = ("noshuffle", "shuffle", "bitshuffle")[blosc["shuffle"]]
    blosc["typesize"] = r.choice((1, 4, 8))
    order = list(range(rank))
    r.shuffle(order)
    transposed = [{"name": "transpose", "configuration": {"order": order}}] if r.random() < 0.4 else []
    serialized = [{"name": "bytes", "configuration": {"endian": r.choice(("little", "big"))}}]
    compressors = (*LEVELS, {"name": "blosc", "configuration": blosc}, {"name": "crc32c"})
    return [*transposed, *serialized, *r.sample(compressors, r.randint(0, 2))]


def _metadata(r: Random, driver: str, rank: int, shape: list[int], chunks: list[int]) -> dict[str, Any]:
    if driver == "zarr3":
        codecs, own = _zarr3(r, rank), chunks
        if r.random() < 0.4:
            own = [n * r.choice((1, 2, 3)) for n in chunks]
            index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
            configuration = {
                "chunk_shape": chunks, "codecs": codecs, "index_codecs": index,
                "index_location": r.choice(("start", "end")),
            }  # fmt: skip
            codecs = [{"name": "sharding_indexed", "configuration": configuration}]
        keys = {"name": r.choice(("default", "v2")), "configuration": {"separator": r.choice("/.")}}
        grid = {"name": "regular", "configuration": {"chunk_shape": own}}
        return {"shape": shape, "chunk_grid": grid, "chunk_key_encoding": keys, "codecs": codecs}
    if driver == "zarr":
        level = {"level": r.randint(1, 9)}
        compressor = r.choice(
            (None, {"id": "blosc", **_blosc(r)}, {"id": "zlib", **level}, {"id": "gzip", **level},
             {"id": "bz2", **level}, {"id": "zstd", **level})
        )  # fmt: skip
        order, separator = r.choice("CF" if rank > 1 else "C"), r.choice("./")
        members = {"order": order, "dimension_separator": separator, "filters": None}
        return {"shape": shape, "chunks": chunks, "compressor": compressor, **members}
    compression = r.choice(
        ({"type": "raw"}, {"type": "gzip", "level": 3, "useZlib": r.random() < 0.5}, {"type": "bzip2"},
         {"type": "xz", "preset": 1}, {"type": "zstd", "level": 2}, {"type": "blosc", **_blosc(r)})
    )  # fmt: skip
    if compression["type"] == "blosc":
        del compression["blocksize"]
    return {"dimensions": shape, "blockSize": chunks, "compression": compression}


def _store(r: Random, root: str) -> Any:
    kind = r.choice(STORES)
    if kind == "zip":
        return {"driver": "zip", "base": f"file://{root}/a.zip", "path": "x/"}
    if kind.startswith("ocdbt"):
        options = {
            "max_inline_value_bytes": r.choice((0, 10, 1000)),
            "max_decoded_node_bytes": r.choice((100, 1000, 8388608)),
            "compression": r.choice((None, {"id": "zstd", "level": 0})),
            "version_tree_arity_log2": r.choice((1, 4)),
        }
        base: Any = f"file://{root}/db/"
        return {"driver": "ocdbt", "base": base, "path": "x/", "config": options}
    return f"file://{root}/x/"


def _values(r: Random, dtype: str, shape: list[int]) -> Any:
    random = np.random.default_rng(r.randrange(2**32))
    if dtype == "bool":
        return random.random(shape) < 0.5
    if dtype.startswith(("float", "complex")):
        return random.choice([0.0, -0.0, 1.5, np.inf, np.nan, -3.25], size=shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)


def _box(r: Random, shape: list[int]) -> tuple[slice, ...]:
    ends = [sorted(r.sample(range(n + 1), 2)) for n in shape]
    return tuple(slice(*pair) for pair in ends)


def run(seed: str, root: str) -> None:
    """One array: created by one library, written and read by both in turns."""
    r = Random(seed)
    driver, rank = r.choice(("zarr", "zarr3", "n5")), r.randint(1, 3)
    dtype = r.choice(DTYPES)
    if driver == "n5" and dtype in ("bool", "float16", "complex64"):
        dtype = "float32"
    shape, chunks = [r.randint(1, 12) for _ in range(rank)], [r.randint(1, 5) for _ in range(rank)]
    store = _store(r, root)
    spec = {"driver": driver, "kvstore": store, "metadata": _metadata(r, driver, rank, shape, chunks)}
    expected = np.zeros(shape, dtype)
    libraries: list[ModuleType] = [tensorstore, chunkwise]
    r.shuffle(libraries)
    libraries[0].open(spec, dtype=dtype, create=True).result()
    told = f"{seed}: {dtype} {spec}"
    for turn in range(r.randint(2, 6)):
        writer, reader = (libraries if turn % 2 else libraries[::-1])[:2]
        place = {"driver": driver, "kvstore": store}
        if r.random() < 0.3:
            shape = [r.randint(1, 12) for _ in shape]
            writer.open(place).result().resize(exclusive_max=shape).result()
            kept = tuple(slice(min(a, b)) for a, b in zip(shape, expected.shape, strict=True))
            known, expected = expected, np.zeros(shape, dtype)
            expected[kept] = known[kept]
            # What lies beyond the edge in a chunk that is kept may come back: all of it is written again.
            writer.open(place).result().write(expected).result()
        else:
            box = _box(r, shape)
            values = _values(r, dtype, [s.stop - s.start for s in box])
            expected[box] = values
            writer.open(place).result()[box].write(values).result()
        for library in (reader, writer):
            array = library.open(place).result()
            found, box = np.asarray(array.read().result()), _box(r, shape)
            assert found.dtype == expected.dtype and list(found.shape) == shape, told
            assert found.tobytes() == expected.tobytes(), told
            assert np.asarray(array[box].read().result()).tobytes() == expected[box].tobytes(), told


@pytest.mark.parametrize("number", range(20))
def test_some_arrays(number: int, tmp_path: Any) -> None:
    run(f"{SEED} {number}", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_arrays(part: int, tmp_path: Any) -> None:
    for number in range(100):
        run(f"{SEED} {1000 + 100 * part + number}", str(tmp_path / str(number)))
