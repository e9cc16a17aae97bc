"""Many chunks that one call decodes: the same values and the same failures as one by one."""

from __future__ import annotations

import gzip
import zlib
from itertools import product
from typing import Any

import numpy as np
import pytest
import zstandard

from chunkwise.core.codec.chain import parse_chain, prepare_chain
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.codec.zstd import Zstd

N = 4096
VALUES = np.random.default_rng(2).integers(0, 20, N, dtype=np.uint8).tobytes()
HALF, REST = VALUES[: N // 2], VALUES[N // 2 :]
ZSTD = zstandard.ZstdCompressor(write_content_size=True)
GZIP = gzip.compress(VALUES)

CHUNKS: dict[str, dict[str, bytes]] = {
    "gzip": {
        "one member": GZIP,
        "another level": gzip.compress(VALUES, 1),
        "two members": gzip.compress(HALF) + gzip.compress(REST),
        "a member before it": gzip.compress(HALF) + GZIP,
        "a member after it": GZIP + gzip.compress(HALF),
        "an empty member before it": gzip.compress(b"") + GZIP,
        "an empty member after it": GZIP + gzip.compress(b""),
        "zeros after it": GZIP + bytes(20),
        "too short": gzip.compress(HALF),
        "too long": gzip.compress(VALUES + HALF),
        "wrong checksum": GZIP[:-8] + bytes(4) + GZIP[-4:],
        "wrong size": gzip.compress(HALF)[:-4] + GZIP[-4:],
        "cut off": GZIP[: N // 4] + GZIP[-4:],
        "garbage after it": GZIP + b"garbage" + GZIP[-4:],
        "garbage": b"\x1f\x8b" + bytes(30) + GZIP[-4:],
        "zlib": zlib.compress(VALUES),
        "few bytes": b"\x1f\x8b\x08",
        "nothing": b"",
    },
    "zstd": {
        "one frame": ZSTD.compress(VALUES),
        "two frames": ZSTD.compress(HALF) + ZSTD.compress(REST),
        "a frame after it": ZSTD.compress(VALUES) + ZSTD.compress(HALF),
        "too short": ZSTD.compress(HALF),
        "cut off": ZSTD.compress(VALUES)[:-3],
        "garbage": ZSTD.compress(VALUES)[:12] + bytes(99),
        "nothing": b"",
    },
}
CODECS: dict[str, Any] = {"gzip": Gzip(1), "zstd": Zstd(1)}


@pytest.mark.parametrize(("codec", "case"), [(c, case) for c in CHUNKS for case in CHUNKS[c]])
def test_a_row_of_chunks_decodes_as_each_of_them_does(codec: str, case: str) -> None:
    decoder, alone = CODECS[codec].open_batch_decoder(N), CODECS[codec].open_decoder(N)
    usual, other = next(iter(CHUNKS[codec].values())), CHUNKS[codec][case]
    for row in product((usual, other), repeat=3):
        encoded = np.frombuffer(b"".join(row), np.uint8).copy()
        starts = np.cumsum([0, *map(len, row)]).tolist()
        address = encoded.ctypes.data
        if not all(decoder.takes(address + at, len(each)) for at, each in zip(starts, row, strict=False)):
            continue
        out = np.empty(3 * N, np.uint8)
        if decoder.decode(encoded.data, out.data):
            assert out.tobytes() == b"".join(bytes(alone(each)) for each in row)
    encoded = np.frombuffer(usual * 3, np.uint8).copy()
    assert decoder.takes(encoded.ctypes.data, len(usual))
    assert decoder.decode(encoded.data, out.data) and out.tobytes() == VALUES * 3


def test_larger_chunks_of_gzip_are_decoded_one_by_one() -> None:
    """libdeflate decodes one faster than ISA-L several."""
    assert Gzip(1).open_batch_decoder(1 << 14) is not None
    assert Gzip(1).open_batch_decoder(1 << 15) is None
    assert Gzip(1).open_batch_decoder(0) is None


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD_JSON = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
TRANSPOSED = {"name": "transpose", "configuration": {"order": [1, 0]}}


@pytest.mark.parametrize(
    ("codecs", "shape", "dtype", "together"),
    [
        ([BYTES, ZSTD_JSON], (4, 8), "u1", True),
        ([BYTES, ZSTD_JSON], (4, 8), "<f4", True),
        ([{"name": "bytes", "configuration": {"endian": "big"}}, ZSTD_JSON], (4, 8), "u2", False),
        ([BYTES, ZSTD_JSON], (4, 8), "?", False),
        ([TRANSPOSED, BYTES, ZSTD_JSON], (4, 8), "u1", False),
        ([BYTES], (4, 8), "u1", False),
        ([BYTES, ZSTD_JSON, {"name": "crc32c"}], (4, 8), "u1", False),
        ([BYTES, ZSTD_JSON], (4, 0), "u1", False),
    ],
    ids=["bytes", "floats", "other order", "booleans", "transposed", "plain", "checksum", "no elements"],
)
def test_chunks_are_decoded_together_if_their_bytes_are_the_elements(
    codecs: list[Any], shape: tuple[int, ...], dtype: str, together: bool
) -> None:
    """A byte of a boolean may be anything but zero: it is made 1, one chunk at a time."""
    item = ChunkSpec(shape, np.dtype(dtype), np.zeros((), dtype))
    chain = prepare_chain(parse_chain(codecs), item)
    assert chain.decodes_batches == (chain.open_batch_decoder() is not None) == together
