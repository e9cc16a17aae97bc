"""Neighbouring chunks copied together: the same files and the same elements as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from chunkwise.core.codec.blosc import Blosc
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.sharding import MISSING
from chunkwise.core.codec.zstd import Zstd
from chunkwise.core.driver.stored_array import shard_layout
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import DataCorruptionError, NotFoundError

LITTLE = Bytes("little")
CODECS: dict[str, Any] = {
    "raw": (LITTLE,),
    "big-endian": (Bytes("big"),),
    "gzip": (LITTLE, Gzip(1)),
    "zstd": (LITTLE, Zstd(1)),
    "blosc": (LITTLE, Blosc()),
    "big-endian zstd": (Bytes("big"), Zstd(1)),
    "crc32c": (LITTLE, Crc32c()),
    "zstd crc32c": (LITTLE, Zstd(1), Crc32c()),
}
DTYPES = ["?", "i1", "u2", "f4", "c8", "M8[s]", "S3", np.dtype([("a", "u1"), ("b", "i4")])]


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(1)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(1, 100, (*shape, dtype.itemsize), dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


@pytest.mark.parametrize("codecs", CODECS)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_as_one_by_one(codecs, tmp_path_factory, stored_array, request_of, data):
    """What is written from rows, in runs, is what is written from columns, and reads back either way."""
    rank = data.draw(st.integers(2, 4))
    chunk = tuple(data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    counts = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    shape = tuple(c * n for c, n in zip(chunk, counts, strict=True))
    dtype = data.draw(st.sampled_from(DTYPES))
    inner = None
    if data.draw(st.booleans()):
        inner, chunk = chunk, shape
    try:
        array = stored_array(shape, chunk, dtype, codecs=CODECS[codecs], inner=inner)
    except Exception:
        if np.dtype(dtype).kind in "SV":
            reject()
        raise
    expected = values(shape, dtype)
    if data.draw(st.booleans()):
        expected[tuple(slice(0, c) for c in (inner or chunk))] = array.fill_value  # a chunk that is missing
    pool = Pool(2)
    rows, columns = (
        MemoryStore(),
        FileStore(tmp_path_factory.mktemp("runs"), sync=False) if rank == 3 else MemoryStore(),
    )
    write_from(array, rows, request_of(shape), expected, pool=pool).result()
    write_from(array, columns, request_of(shape), np.asfortranarray(expected), pool=pool).result()
    keys = sorted(rows.list())
    assert keys == sorted(columns.list())
    for key in keys:
        assert rows.read(key).value == columns.read(key).value
    for store in (rows, columns):
        for out in (
            np.zeros(shape, dtype),
            np.zeros(shape, dtype, order="F"),
            np.zeros(shape, dtype)[..., ::-1],
            np.flip(np.zeros(shape, dtype)),
        ):
            read_into(array, store, request_of(shape), out, pool=pool).result()
            assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("codecs", ["raw", "gzip", "zstd", "blosc"])
def test_damage_and_absence(codecs, stored_array, request_of, tmp_path):
    """A bad chunk among many is named; a missing one is the fill value, or an error if that is asked for."""
    shape = (4, 32)
    array = stored_array(shape, (4, 8), fill=7, codecs=CODECS[codecs])
    store, pool = FileStore(tmp_path, sync=False), Pool(1)
    expected = values(shape, "u2")
    write_from(array, store, request_of(shape), expected, pool=pool).result()
    store.delete("a/c/0/1")
    out = np.zeros(shape, "u2")
    read_into(array, store, request_of(shape), out, pool=pool).result()
    expected[:, 8:16] = 7
    assert (out == expected).all()
    with pytest.raises(NotFoundError, match="c/0/1"):
        read_into(array, store, request_of(shape), out, pool=pool, fill_missing=False).result()
    good = bytes(store.read("a/c/0/2").value)
    # What lies behind a Blosc frame is ignored, as programs that write N5 leave something there.
    for bad in (good[:-1], good[:3], b"", *([] if codecs == "blosc" else [good + b"x"])):
        store.write("a/c/0/2", bad)
        with pytest.raises(DataCorruptionError, match="c/0/2"):
            read_into(array, store, request_of(shape), out, pool=pool).result()


@pytest.mark.parametrize("layout", ["in order", "reversed", "with gaps", "one missing"])
def test_inner_chunks_wherever_they_lie(layout, stored_array, request_of, tmp_path):
    """Neighbours in a row of a shard are decoded together only where they are neighbours in the shard."""
    shape, inner = (8, 64), (4, 8)
    array = stored_array(shape, shape, fill=7, codecs=CODECS["zstd"], inner=inner)
    store, pool = FileStore(tmp_path, sync=False), Pool(1)
    expected = values(shape, "u2")
    write_from(array, store, request_of(shape), expected, pool=pool).result()
    (key,) = store.list()
    shard = bytes(store.read(key).value)
    form = shard_layout(array, array.shard)
    index = form.decode_shard(memoryview(shard)).copy()
    order = range(form.n_chunks)[:: -1 if layout == "reversed" else 1]
    parts, end = [], 0
    for entry in order:
        offset, length = index[entry].tolist()
        parts.append(shard[offset : offset + length] + (b"gap" if layout == "with gaps" else b""))
        index[entry, 0] = end
        end += len(parts[-1])
    if layout == "one missing":
        index[3] = MISSING
        expected[:4, 24:32] = 7
    moved = b"".join(parts) + form.encode(index)
    store.write(key, moved)
    out = np.zeros(shape, "u2")
    read_into(array, store, request_of(shape), out, pool=pool).result()
    assert (out == expected).all()
    # one that is damaged is named, whatever it was decoded with
    offset = int(index[13, 0])
    store.write(key, moved[: offset + 4] + b"?" + moved[offset + 5 :])
    with pytest.raises(DataCorruptionError, match=r"shard entry \{1, 5\}"):
        read_into(array, store, request_of(shape), out, pool=pool).result()
