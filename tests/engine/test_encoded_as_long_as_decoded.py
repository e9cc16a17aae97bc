"""A chunk that is stored in as many bytes as it decodes to is decoded like any other.

Such chunks are rare, and nothing shows that one has been returned as it is stored: the number of bytes is
right.  Here they are made by search.  Zeros with random bytes behind them are encoded in a few more bytes
than there are random ones, so that some number of these gives any length wanted.  Zstandard stores what saves
too little as it is; there a frame to be skipped is put behind a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr

import chunkwise as cw

Values = np.ndarray[Any, np.dtype[Any]]

DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", "attributes.json")
FAST = {"file_io_sync": False}
# One thread takes more chunks at a time.
ONE_THREAD = {"data_copy_concurrency": {"limit": 1}}
CACHED = {"cache_pool": {"total_bytes_limit": 1 << 28}}
SIZES = {
    "1K": (8, 8, 8),
    "8K": (16, 16, 16),
    "120K": (30, 32, 64),
    "256K": (64, 64, 32),
    "512K": (64, 64, 64),
    "1M": (64, 64, 128),
    "4.5M": (144, 128, 128),
}
# zarr-python has no such codecs; TensorStore knows neither LZ4 of N5 nor several Zstandard frames.
WITHOUT_PEER = ("zarr3 cast_value", "n5 lz4", "n5 zstd")


def _zarr3(*codecs: Any) -> dict[str, Any]:
    return {"driver": "zarr3", "metadata": {"codecs": list(codecs)}}


def _zarr2(compressor: Any, *filters: Any) -> dict[str, Any]:
    return {
        "driver": "zarr2",
        "metadata": {"compressor": compressor, "filters": list(filters) or None, "dtype": "<u2"},
    }


def _n5(**compression: Any) -> dict[str, Any]:
    return {"driver": "n5", "metadata": {"compression": compression}}


def _c(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


LITTLE = _c("bytes", endian="little")
GZIP = _c("gzip", level=1)
ZSTD = _c("zstd", level=1)
BLOSC = _c("blosc", cname="lz4", clevel=5, shuffle="noshuffle", blocksize=0)
SHUFFLED = _c("blosc", cname="lz4", clevel=1, shuffle="shuffle", typesize=2, blocksize=0)

SEARCHED = {
    "zarr3 gzip": _zarr3(LITTLE, GZIP),
    "zarr3 zstd": _zarr3(LITTLE, ZSTD),
    "zarr3 blosc": _zarr3(LITTLE, BLOSC),
    "zarr3 blosc shuffle": _zarr3(LITTLE, SHUFFLED),
    "zarr3 big gzip": _zarr3(_c("bytes", endian="big"), GZIP),
    "zarr3 gzip crc32c": _zarr3(LITTLE, GZIP, {"name": "crc32c"}),
    "zarr3 crc32c gzip": _zarr3(LITTLE, {"name": "crc32c"}, GZIP),
    "zarr3 gzip gzip": _zarr3(LITTLE, GZIP, GZIP),
    "zarr3 transpose gzip": _zarr3(_c("transpose", order=[2, 0, 1]), LITTLE, GZIP),
    "zarr2 gzip": _zarr2({"id": "gzip", "level": 1}),
    "zarr2 zlib": _zarr2({"id": "zlib", "level": 1}),
    "zarr2 zstd": _zarr2({"id": "zstd", "level": 1}),
    "zarr2 blosc": _zarr2({"id": "blosc", "cname": "zlib", "clevel": 1, "shuffle": 0, "blocksize": 0}),
    "zarr2 lz4": _zarr2({"id": "lz4", "acceleration": 1}),
    "zarr2 delta zlib": _zarr2({"id": "zlib", "level": 1}, {"id": "delta", "dtype": "<u2"}),
    "zarr2 shuffle zlib": _zarr2({"id": "zlib", "level": 1}, {"id": "shuffle", "elementsize": 2}),
    "zarr2 gzip base64": _zarr2({"id": "base64"}, {"id": "gzip", "level": 6}),
    "n5 gzip": _n5(type="gzip", level=1),
    "n5 zstd": _n5(type="zstd", level=1),
    "n5 lz4": _n5(type="lz4"),
    "n5 blosc": _n5(type="blosc", cname="zlib", clevel=1, shuffle=0),
}
SLOW = {
    "zarr2 bz2": _zarr2({"id": "bz2", "level": 1}),
    "zarr2 lzma": _zarr2({"id": "lzma", "preset": 0}),
    "n5 bzip2": _n5(type="bzip2", blockSize=9),
    "n5 xz": _n5(type="xz", preset=0),
}
EVERY_SIZE = ("zarr3 gzip", "zarr3 zstd")
# Large chunks of other codecs are decoded the same way, and take long to be found.
LARGE_TOO = (
    *EVERY_SIZE,
    *("zarr3 blosc", "zarr3 gzip crc32c", "zarr2 zlib", "zarr2 delta zlib", "n5 gzip"),
    *("zarr3 raw", "zarr3 big", "zarr3 delta", "zarr2 shuffle delta"),
)
# Codecs that give each chunk as many bytes as it has without them.
ALWAYS = {
    "zarr3 raw": _zarr3(LITTLE),
    "zarr3 big": _zarr3(_c("bytes", endian="big")),
    "zarr3 transpose": _zarr3(_c("transpose", order=[2, 1, 0]), LITTLE),
    "zarr3 delta": _zarr3(_c("numcodecs.delta", dtype="<u2"), LITTLE),
    "zarr3 cast_value": _zarr3(_c("cast_value", data_type="int16", out_of_range="wrap"), LITTLE),
    "zarr3 shuffle": _zarr3(LITTLE, _c("numcodecs.shuffle", elementsize=2)),
    "zarr2 shuffle": _zarr2({"id": "shuffle", "elementsize": 2}),
    "zarr2 delta": _zarr2(None, {"id": "delta", "dtype": "<u2"}),
    "zarr2 fixedscaleoffset": _zarr2(
        None, {"id": "fixedscaleoffset", "offset": 9, "scale": 1, "dtype": "<u2", "astype": "<u2"}
    ),
    "zarr2 shuffle delta": _zarr2({"id": "shuffle", "elementsize": 2}, {"id": "delta", "dtype": "<u2"}),
}


def _open(spec: dict[str, Any], path: Path, **context: Any) -> Any:
    context = {**FAST, **context}
    return cw.open({"driver": spec["driver"], "kvstore": f"file://{path}/", "context": context}).result()


def _create(spec: dict[str, Any], path: Path, shape: Any, chunks: Any) -> Any:
    layout = cw.ChunkLayout(write_chunk_shape=chunks)
    spec = {**spec, "kvstore": f"file://{path}/", "context": FAST}
    return cw.open(spec, create=True, dtype="uint16", shape=shape, chunk_layout=layout).result()


def _files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and path.name not in DOCUMENTS]


def _elements(shape: tuple[int, ...], n_random: int, rng: np.random.Generator) -> Values:
    raw = np.zeros(2 * int(np.prod(shape)), "u1")
    raw[len(raw) - n_random :] = rng.integers(0, 256, n_random)
    return raw.view("<u2").reshape(shape)


def _search(encoded_nbytes: Callable[[Values], int], shape: tuple[int, ...]) -> Values:
    """Return a chunk whose encoded bytes are as many as those of its elements."""
    rng = np.random.default_rng(1)
    wanted = 2 * int(np.prod(shape))
    n = wanted - 40
    for attempt in range(400):
        values = _elements(shape, n, rng)
        more = wanted - encoded_nbytes(values)
        if more == 0:
            return values
        reach = 4 + attempt // 20
        n += more if abs(more) > reach else int(rng.integers(-reach, reach + 1))
        n = max(0, min(n, wanted))
    raise AssertionError(f"no chunk found that has {wanted} bytes")


def _pad(path: Path, nbytes: int) -> None:
    """Make a file of Zstandard frames as long as is said, by a frame to be skipped."""
    room = nbytes - path.stat().st_size - 8
    assert room >= 0
    path.write_bytes(path.read_bytes() + b"\x50\x2a\x4d\x18" + room.to_bytes(4, "little") + bytes(room))


def _make(spec: dict[str, Any], shape: tuple[int, ...], n: tuple[int, ...], root: Path) -> Values:
    """Make an array in which every second chunk is as long encoded as decoded; return its elements."""
    if _is_zstd(spec):
        chunk = _elements(shape, int(np.prod(shape)), np.random.default_rng(1))
    else:
        store = _create(spec, root / "search", shape, shape)

        def encoded_nbytes(values: Values) -> int:
            store.write(values).result()
            (path,) = _files(root / "search")
            return path.stat().st_size

        chunk = _search(encoded_nbytes, shape)
    other = np.arange(chunk.size, dtype="u2").reshape(shape) // 3
    chunks = [chunk if i % 2 else other + i for i in range(int(np.prod(n)))]
    whole = tuple(a * b for a, b in zip(n, shape, strict=True))
    data = np.stack(chunks).reshape(*n, *shape).transpose(0, 3, 1, 4, 2, 5).reshape(whole)
    _create(spec, root / "a", whole, shape).write(data).result()
    if _is_zstd(spec):
        for path in _files(root / "a"):
            _pad(path, chunk.nbytes)
    assert sum(path.stat().st_size == chunk.nbytes for path in _files(root / "a")) >= len(chunks) // 2
    return data


def _is_zstd(spec: dict[str, Any]) -> bool:
    return spec in (SEARCHED["zarr3 zstd"], SEARCHED["zarr2 zstd"], SEARCHED["n5 zstd"])


def _reads(array: Any, data: Values, chunk: tuple[int, ...]) -> Iterator[tuple[str, Values, Values]]:
    """Yield the name of a way of reading, what it gives, and what it should."""
    (a, b, c), n = chunk, data.shape
    boxes: dict[str, Any] = {
        "whole": np.s_[:, :, :],
        "one chunk": np.s_[:a, :b, c : 2 * c],
        "row of chunks": np.s_[:a, :b],
        "partial": np.s_[1 : a - 1, 2 : n[1] - 1, 3 : n[2] - 2],
        "inside": np.s_[1:3, 1:4, c + 1 : 2 * c - 1],
        "plane": np.s_[a // 2],
        "line": np.s_[1, 2],
        "element": np.s_[1, 2, c + 3],
        "strided": np.s_[::2, ::3, ::5],
        "backwards": np.s_[::-1, ::-1, ::-1],
    }
    for name, box in boxes.items():
        yield name, array[box].read().result(), data[box]
    every = np.arange(0, n[2], 3)
    yield "indexed", array[:, :, every].read().result(), data[:, :, every]
    rows, columns = np.array([0, 1, n[1] - 1]), np.array([c, c + 1, 3 * c + 2])
    yield "orthogonal", array.oindex[:, rows, columns].read().result(), data[:, rows][:, :, columns]
    yield "points", array.vindex[:, rows, columns].read().result(), data[:, rows, columns].T
    yield "transposed", array.T.read().result(), data.T
    yield "columns first", array.read(order="F").result(), data


def _check(array: Any, data: Values, chunk: tuple[int, ...]) -> None:
    wrong = [name for name, got, want in _reads(array, data, chunk) if not np.array_equal(got, want)]
    assert wrong == []


def _peer(driver: str, path: Path) -> Values:
    """Return what another implementation reads."""
    if driver == "n5":
        spec = {"driver": "n5", "kvstore": f"file://{path}/"}
        return np.asarray(tensorstore.open(spec).result().read().result())
    return np.asarray(zarr.open_array(path, mode="r")[...])


def _case(name: str, size: str) -> Any:
    large = size not in ("1K", "8K") and (name not in LARGE_TOO or size == "4.5M")
    return pytest.param(name, SIZES[size], id=f"{name} {size}", marks=[pytest.mark.slow] * large)


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(_case(name, size) for name in SEARCHED for size in ("8K", "512K") if name not in EVERY_SIZE),
        *(_case(name, size) for name in EVERY_SIZE for size in SIZES),
        *(_case(name, size) for name in SLOW for size in ("8K", "120K")),
        *(_case(name, size) for name in ALWAYS for size in ("1K", "8K", "512K")),
    ],
)
def test_every_way_of_reading(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    spec = {**SEARCHED, **SLOW, **ALWAYS}[name]
    n = (1, 2, 8) if name in SEARCHED and np.prod(shape) < 1 << 19 else (1, 1, 8)
    data = _make(spec, shape, n, tmp_path)
    for context in (ONE_THREAD, {}, CACHED):
        _check(_open(spec, tmp_path / "a", **context), data, shape)
    if name not in WITHOUT_PEER:
        np.testing.assert_array_equal(_peer(spec["driver"], tmp_path / "a"), data)


def _inner_nbytes(root: Path, n: int) -> list[int]:
    """Return the encoded sizes of the inner chunks of shards that end with an index of `n` entries."""
    index = [np.frombuffer(path.read_bytes()[-16 * n - 4 : -4], "<u8") for path in _files(root)]
    return [int(nbytes) for entries in index for nbytes in entries[1::2]]


@pytest.mark.parametrize("shape", [SIZES["8K"], SIZES["256K"]], ids=["8K", "256K"])
@pytest.mark.parametrize("codec", [GZIP, BLOSC], ids=["gzip", "blosc"])
def test_inner_chunks_of_shards(codec: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    inner = {"chunk_shape": list(shape), "codecs": [LITTLE, codec]}
    spec = _zarr3(_c("sharding_indexed", **inner))
    store = _create(spec, tmp_path / "search", shape, shape)

    def encoded_nbytes(values: Values) -> int:
        store.write(values).result()
        (nbytes,) = _inner_nbytes(tmp_path / "search", 1)
        return nbytes

    chunk = _search(encoded_nbytes, shape)
    other = np.arange(chunk.size, dtype="u2").reshape(shape) // 3
    data = np.concatenate([chunk, other, chunk, chunk, other, other, chunk, chunk], 2)
    _create(spec, tmp_path / "a", data.shape, (*shape[:2], 4 * shape[2])).write(data).result()
    assert _inner_nbytes(tmp_path / "a", 4).count(chunk.nbytes) == 5
    for context in (ONE_THREAD, {}, CACHED):
        _check(_open(spec, tmp_path / "a", **context), data, shape)
    np.testing.assert_array_equal(_peer("zarr3", tmp_path / "a"), data)


@pytest.mark.each_once
@pytest.mark.parametrize("shape", [SIZES["8K"], SIZES["512K"]], ids=["8K", "512K"])
@pytest.mark.parametrize(
    "name", ["zarr3 gzip", "zarr3 zstd", "zarr2 blosc", "n5 gzip", "zarr3 raw", "zarr3 big"]
)
def test_layers_of_a_stack_and_other_views(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    spec = {**SEARCHED, **ALWAYS}[name]
    data = _make(spec, shape, (1, 1, 4), tmp_path)
    layer = {"driver": spec["driver"], "kvstore": f"file://{tmp_path}/a/"}
    n = data.shape[2]
    layers = [{**layer, "transform": _moved(data.shape, i * n)} for i in range(3)]
    stack = cw.open({"driver": "stack", "layers": layers, "dtype": "uint16", "context": FAST}).result()
    _check(stack, np.concatenate([data] * 3, 2), shape)
    array = _open(spec, tmp_path / "a")
    np.testing.assert_array_equal(cw.cast(array, "int64").read().result(), data.astype("i8"))
    thinned = cw.downsample(array, [2, 2, 2], "stride").read().result()
    np.testing.assert_array_equal(thinned, data[::2, ::2, ::2])
    array[1:3, 1:4].write(np.uint16(7)).result()  # what lies around it in the chunk stays
    data[1:3, 1:4] = 7
    np.testing.assert_array_equal(_open(spec, tmp_path / "a").read().result(), data)


def _moved(shape: tuple[int, ...], by: int) -> dict[str, Any]:
    """Return the transform of an array that is to lie further along the last dimension."""
    output = [{"input_dimension": 0}, {"input_dimension": 1}, {"input_dimension": 2, "offset": -by}]
    low = [0, 0, by]
    return {"input_inclusive_min": low, "input_shape": list(shape), "output": output}
