"""The reckoned memory of reading a part of a chunk is what reading takes, in each chain of codecs."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

import chunkwise as cw

VALUES = np.random.default_rng(40).integers(0, 255, (500, 1000), "u1")  # so no codec makes it smaller

CHAINS: dict[str, tuple[int, dict[str, Any]]] = {
    "raw": (1, {"compressors": None}),
    "checksum": (1, {"compressors": [Crc32cCodec()]}),
    "zstd": (2, {"compressors": [ZstdCodec()]}),
    "checked zstd": (2, {"compressors": [ZstdCodec(), Crc32cCodec()]}),
    "transposed": (2, {"compressors": [ZstdCodec()], "filters": [TransposeCodec(order=(1, 0))]}),
    "two": (3, {"compressors": [GzipCodec(level=1), ZstdCodec()]}),
    "big endian": (2, {"compressors": [ZstdCodec()], "serializer": BytesCodec(endian="big")}),
    "delta": (
        4, {"zarr_format": 2, "filters": [numcodecs.Delta("u1")], "compressors": numcodecs.Zlib(1)},
    ),
    "shuffled": (
        3, {"zarr_format": 2, "filters": [numcodecs.Shuffle(2)], "compressors": numcodecs.Zlib(1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_it_is_what_reading_takes(name: str) -> None:
    expected, options = CHAINS[name]
    there: dict[str, Any] = {}
    made = zarr.create_array(
        zarr.storage.MemoryStore(there), shape=VALUES.shape, chunks=VALUES.shape, dtype="u1", **options
    )
    made[...] = VALUES
    kvstore = cw.KvStore.open("memory://").result()
    for key, value in there.items():
        kvstore.write(key, value.to_bytes()).result()
    array = cw.open({"driver": "auto", "kvstore": kvstore}, read=True).result()
    reckoned = array._array.stored.chain.chunks_in_memory
    assert reckoned == expected
    part = array[3:5, 4:7]
    part.read().result()
    tracemalloc.start()
    part.read().result()
    taken = tracemalloc.get_traced_memory()[1] / VALUES.nbytes
    tracemalloc.stop()
    assert taken < reckoned + 0.25  # the stored value itself lies in the store already
