"""Whole-array reads and writes of local files, compared with TensorStore.

    python benchmarks/engine.py [--shape 512,512,256] [--chunks 16,32,64] [--codecs raw,blosc] [--repeat 3]

Prints one line for each codec and chunk size: milliseconds of the fastest run of each library, and how many
times as fast chunkwise is.  Both use the same files, in a directory in memory if there is one, with the same
number of threads and without fsync.  Reads are checked against the data.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorstore

from chunkwise.core.chunk_key import default_keys
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import parse_codecs, prepare_chain
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.grid import RegularGrid
from chunkwise.core.kvstore.files.file_store import FileStore

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
CODECS: dict[str, list[Any]] = {
    "raw": [LITTLE],
    "blosc": [
        LITTLE,
        {
            "name": "blosc",
            "configuration": {
                "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0,
            },
        },
    ],
    "zstd": [LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
}  # fmt: skip


class Map(NamedTuple):
    offset: int
    stride: int
    input_dimension: int | None
    index_array: None = None


class Request(NamedTuple):
    input_inclusive_min: tuple[int, ...]
    input_shape: tuple[int, ...]
    output: tuple[Map, ...]


def everything(shape: tuple[int, ...]) -> Request:
    return Request((0,) * len(shape), shape, tuple(Map(0, 1, d) for d in range(len(shape))))


def data_of(shape: tuple[int, ...]) -> np.ndarray:
    """A smooth image with some noise, like that of a microscope."""
    axes = np.meshgrid(*[np.linspace(0, 6, n, dtype=np.float32) for n in shape], indexing="ij", sparse=True)
    smooth = sum(np.sin(a) for a in axes) * 2000 + 8000
    noise = np.random.default_rng(0).integers(0, 60, shape, dtype=np.uint16)
    return smooth.astype(np.uint16) + noise


def metadata(shape: tuple[int, ...], chunk: tuple[int, ...], codecs: list[Any]) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": codecs,
        "attributes": {},
    }


def stored_array(
    shape: tuple[int, ...], chunk: tuple[int, ...], codecs: list[Any], inner: tuple[int, ...] | None
) -> StoredArray:
    fill = np.zeros((), np.uint16)
    shard = None

    def index_chain(counts: tuple[int, ...]) -> Any:
        u8 = np.dtype(np.uint64)
        return prepare_chain((Bytes("little"), Crc32c()), ChunkSpec((*counts, 2), u8, np.zeros((), u8)))

    if inner is not None:
        chain = prepare_chain(parse_codecs(codecs), ChunkSpec(inner, fill.dtype, fill))
        shard = ShardLevel(RegularGrid(inner), chain, "end", index_chain)
    chain = prepare_chain(parse_codecs(codecs), ChunkSpec(chunk, fill.dtype, fill))
    return StoredArray(shape, None, fill, RegularGrid(chunk), chain, default_keys({}), {}, shard)  # type: ignore[arg-type]


def milliseconds(action: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> float:
    """Milliseconds that `action` takes."""
    before()
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def clear(directory: Path) -> None:
    shutil.rmtree(directory / "c", ignore_errors=True)


def compare(
    where: Path, data: np.ndarray, edge: int, codec: str, inner: int | None, threads: int, repeat: int
) -> tuple[float, float]:
    shape = data.shape
    chunk = (edge,) * data.ndim
    codecs = CODECS[codec]
    sharded = codecs
    if inner is not None:
        sharded = [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [inner] * data.ndim,
                    "codecs": codecs,
                    "index_codecs": [LITTLE, {"name": "crc32c"}],
                },
            }
        ]
    (where / "zarr.json").write_text(json.dumps(metadata(shape, chunk, sharded)))
    context = {
        "data_copy_concurrency": {"limit": threads},
        "file_io_sync": False,
        "cache_pool": {"total_bytes_limit": 0},
    }
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{where}/"}, "context": context}
    theirs = tensorstore.open(spec).result()
    array = stored_array(shape, chunk, codecs, None if inner is None else (inner,) * data.ndim)
    store, pool, request = FileStore(where, sync=False), Pool(threads), everything(shape)

    def write() -> None:
        write_from(array, store, request, data, pool=pool).result()

    def read() -> np.ndarray:
        out = np.empty(shape, data.dtype)
        return read_into(array, store, request, out, pool=pool).result()

    our_read = their_read = our_write = their_write = math.inf
    for _ in range(repeat):  # in turns, so that other load affects both equally
        their_write = min(
            their_write, milliseconds(lambda: theirs.write(data).result(), lambda: clear(where))
        )
        assert np.array_equal(read(), data)
        our_write = min(our_write, milliseconds(write, lambda: clear(where)))
        assert np.array_equal(theirs.read().result(), data)
        for _ in range(2):
            our_read = min(our_read, milliseconds(read))
            their_read = min(their_read, milliseconds(lambda: theirs.read().result()))
    name = f"{codec} {edge}³" + (f" of {inner}³" if inner else "")
    print(
        f"{name:18} read {our_read:7.1f} {their_read:7.1f} ms {their_read / our_read:5.2f}x"
        f"   write {our_write:7.1f} {their_write:7.1f} ms {their_write / our_write:5.2f}x",
        flush=True,
    )
    clear(where)
    return their_read / our_read, their_write / our_write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="512,512,256")
    parser.add_argument("--chunks", default="16,32,64")
    parser.add_argument("--codecs", default="raw,blosc")
    parser.add_argument("--inner", type=int, help="edge of inner chunks; --chunks are shards then")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    shape = tuple(map(int, options.shape.split(",")))
    data = data_of(shape)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    ratios = []
    print(f"{shape} {data.dtype}, {options.threads} threads: chunkwise, TensorStore")
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        for codec in options.codecs.split(","):
            for edge in map(int, options.chunks.split(",")):
                ratios.append(
                    compare(
                        Path(directory), data, edge, codec, options.inner, options.threads, options.repeat
                    )
                )
    reads, writes = zip(*ratios, strict=True)
    print(
        f"geometric mean: read {math.prod(reads) ** (1 / len(reads)):.2f}x,"
        f" write {math.prod(writes) ** (1 / len(writes)):.2f}x; least: read {min(reads):.2f}x,"
        f" write {min(writes):.2f}x"
    )


if __name__ == "__main__":
    main()
