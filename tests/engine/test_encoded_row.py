"""Encoded chunks one right after the other: what is decoded together, and what has to be read alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chunkwise.codec.decode import Packed
from chunkwise.codec.zstd import Zstd
from chunkwise.engine.encoded_row import MISSING, EncodedRow
from chunkwise.errors import InvalidArgumentError
from chunkwise.kvstore.file_read import open_file_reader, open_into_reader

NBYTES = 512
PARTS = [np.random.default_rng(i).integers(0, 9, NBYTES, "u1").tobytes() for i in range(4)]
SKIPPABLE = b"\x50\x2a\x4d\x18" + (3 * NBYTES).to_bytes(4, "little") + bytes(3 * NBYTES)


@pytest.fixture(params=["into", "copied"])
def row(request: pytest.FixtureRequest, tmp_path: Path) -> EncodedRow:
    encode, codec = Zstd(1).open_encoder(), Zstd(1)
    for name, part in enumerate(PARTS):
        (tmp_path / str(name)).write_bytes(encode(part))
    one = (tmp_path / "1").read_bytes()
    (tmp_path / "long").write_bytes(one + SKIPPABLE)
    (tmp_path / "cut").write_bytes(one[:-9])
    (tmp_path / "empty").write_bytes(b"")
    packed = Packed(
        np.dtype("u1"),
        np.dtype("u1"),
        NBYTES,
        codec.open_decoder_into(NBYTES),
        codec.open_row_decoder(NBYTES),
    )
    root = f"{tmp_path}/"
    into = open_into_reader(root) if request.param == "into" else None
    return EncodedRow(packed, open_file_reader(root), into)


@pytest.mark.parametrize("odd", ["missing", "long", "cut", "empty", None])
def test_what_is_as_expected_is_decoded(row: EncodedRow, odd: str | None) -> None:
    for keys in (["0", "1", "2", "3"], ["3", odd or "2", "0", "1"]):
        row.clear(len(keys))
        for key in keys:
            row.append(key)
        memory = memoryview(bytearray(NBYTES * len(keys)))
        together = row.decode_all(memory)
        assert together == (odd is None or odd not in keys)
        for number, key in enumerate(keys):
            place = memory[number * NBYTES : (number + 1) * NBYTES]
            assert together or row.decode(number, place) == (key != odd)
            assert (row.lengths[number] == MISSING) == (key == "missing")
            assert key == odd or place == PARTS[int(key)]


def test_a_chunk_that_the_store_fails_at_is_read_alone(row: EncodedRow) -> None:
    row.clear(3)
    row.append("0")
    with pytest.raises(InvalidArgumentError, match="Invalid key"):
        row.append("../0")
    row.skip()
    row.append("2")
    memory = memoryview(bytearray(NBYTES * 3))
    assert not row.decode_all(memory)
    assert [row.decode(i, memory[i * NBYTES : (i + 1) * NBYTES]) for i in range(3)] == [True, False, True]
    assert memory[2 * NBYTES :] == PARTS[2] and row.lengths[1] != MISSING
