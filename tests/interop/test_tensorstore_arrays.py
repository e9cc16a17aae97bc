"""The four drivers that TensorStore has, against it, both ways, over random metadata.

Each test gives the same spec to both: who creates and who reads takes turns.
"""

import json

import ml_dtypes
import numpy as np
import pytest
import tensorstore
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as ts

NUMBERS = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16", "int4"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"),
]
N5_NUMBERS = [
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    "float32",
    "float64",
]
ZARR_COMPRESSORS = [
    None,
    {"id": "zlib", "level": 1},
    {"id": "gzip", "level": 1},
    {"id": "bz2", "level": 1},
    {"id": "zstd", "level": 1},
    {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1},
    {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2},
]
N5_COMPRESSIONS = [
    {"type": "raw"},
    {"type": "gzip", "level": 1},
    {"type": "gzip", "level": 1, "useZlib": True},
    {"type": "bzip2", "blockSize": 1},
    {"type": "xz", "preset": 1},
    {"type": "zstd", "level": 1},
    {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
    {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2},
]
ZARR3_COMPRESSORS = [
    [],
    [{"name": "gzip", "configuration": {"level": 1}}],
    [{"name": "zstd", "configuration": {"level": 1}}],
    [{"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle"}}],
    [{"name": "crc32c"}],
    [{"name": "zstd", "configuration": {"level": 1}}, {"name": "crc32c"}],
]


def _dtype(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def _random(rng, dtype, shape):
    if dtype.name == "int4":
        return rng.integers(-8, 8, shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    n = int(np.prod(shape))
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).reshape(shape)


def _geometry(draw, least=0):
    rank = draw(st.integers(least, 4))
    shape = [draw(st.integers(0, 7)) for _ in range(rank)]
    return rank, shape, [draw(st.integers(1, 4)) for _ in range(rank)]


@st.composite
def _zarr(draw):
    rank, shape, chunks = _geometry(draw)
    dtype = _dtype(draw(st.sampled_from(NUMBERS)))
    metadata = {
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype.str if dtype.isbuiltin == 1 else dtype.name,
        "compressor": draw(st.sampled_from(ZARR_COMPRESSORS)),
        # TensorStore mixes the two up where they are the same
        "order": draw(st.sampled_from("CF" if rank > 1 else "C")),
        "dimension_separator": draw(st.sampled_from("./")),
    }
    if dtype.isbuiltin == 1 and dtype.itemsize > 1 and draw(st.booleans()):
        metadata["dtype"] = dtype.newbyteorder(">").str
    if dtype.kind in "iu" and draw(st.booleans()):
        metadata["fill_value"] = 5
    return {"driver": "zarr", "metadata": metadata}, dtype, rank


@st.composite
def _zarr3(draw):
    rank, shape, chunks = _geometry(draw)
    dtype = _dtype(draw(st.sampled_from(NUMBERS)))
    codecs = [{"name": "bytes"}]
    if dtype.itemsize > 1:
        codecs[0]["configuration"] = {"endian": draw(st.sampled_from(["little", "big"]))}
    if rank and draw(st.booleans()):
        order = list(draw(st.permutations(range(rank))))
        codecs.insert(0, {"name": "transpose", "configuration": {"order": order}})
    codecs += draw(st.sampled_from(ZARR3_COMPRESSORS))
    for _ in range(draw(st.integers(0, 2)) if rank else 0):
        options = {
            "chunk_shape": chunks,
            "codecs": codecs,
            "index_location": draw(st.sampled_from(["start", "end"])),
        }
        codecs = [{"name": "sharding_indexed", "configuration": options}]
        chunks = [n * draw(st.integers(1, 3)) for n in chunks]
    name, separator = draw(st.sampled_from(["default", "v2"])), draw(st.sampled_from("./"))
    metadata = {
        "shape": shape,
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": name, "configuration": {"separator": separator}},
        "codecs": codecs,
    }
    if dtype.kind in "iu" and draw(st.booleans()):
        metadata["fill_value"] = 5
    elif dtype.kind == "f" and dtype.isbuiltin == 1 and draw(st.booleans()):
        metadata["fill_value"] = draw(
            st.sampled_from(["NaN", "-Infinity", 1.5, "0x" + "7f" * dtype.itemsize])
        )
    if rank and draw(st.booleans()):
        metadata["dimension_names"] = [*"abcd"[: rank - 1], None]
    return {"driver": "zarr3", "metadata": metadata}, dtype, rank


@st.composite
def _n5(draw):
    rank, shape, chunks = _geometry(draw, 1)
    dtype = _dtype(draw(st.sampled_from(N5_NUMBERS)))
    metadata = {
        "dimensions": shape,
        "blockSize": chunks,
        "dataType": dtype.name,
        "compression": draw(st.sampled_from(N5_COMPRESSIONS)),
    }
    if draw(st.booleans()):
        metadata |= {
            "units": ["nm"] * rank,
            "resolution": [float(i + 1) for i in range(rank)],
            "extra": {"a": [1]},
        }
    if draw(st.booleans()):
        metadata["axes"] = list("abcd"[:rank])
    return {"driver": "n5", "metadata": metadata}, dtype, rank


def _check(case, seed, fresh):
    spec, dtype, rank = case
    rng = np.random.default_rng(seed)
    path = fresh()
    spec = {**spec, "kvstore": {"driver": "file", "path": f"{path}/", "file_io_sync": False}}
    writers, readers = (ts, tensorstore), (tensorstore, ts)
    if seed % 2:
        writers, readers = readers, writers
    # both would make the same array
    documents = []
    for library in (tensorstore, ts):
        other = {**spec, "kvstore": {**spec["kvstore"], "path": f"{fresh()}/"}}
        store = library.open(other, create=True).result()
        documents.append(store.spec().to_json()["metadata"])
        assert store.dtype.name == dtype.name
    # TensorStore writes that zstd has no checksum; the specification of the codec leaves that out.
    texts = [json.dumps(d, sort_keys=True).replace('"checksum": false, ', "") for d in documents]
    assert texts[0] == texts[1]
    made = writers[0].open(spec, create=True).result()
    opened = readers[0].open(spec).result()
    assert str(made.domain) == str(opened.domain)
    assert json.dumps(made.schema.to_json(), sort_keys=True) == json.dumps(
        opened.schema.to_json(), sort_keys=True
    )
    shape = made.shape
    missing = [store.read().result().tobytes() for store in (made, opened)]
    assert missing[0] == missing[1]
    want = np.frombuffer(missing[0], dtype).reshape(shape).copy()
    # write parts in turn, each read by both
    for turn in range(3):
        part = tuple(slice(*sorted(rng.integers(0, n + 1, 2).tolist())) for n in shape)
        part = part if turn else (...,) if rank == 0 or seed % 3 else part
        want[part] = _random(rng, dtype, want[part].shape)
        (made, opened)[turn % 2][part].write(want[part]).result()
        assert made.read().result().tobytes() == opened.read().result().tobytes() == want.tobytes()
    # what one makes smaller, the other reads
    if rank:
        small = [int(n) // 2 for n in shape]
        made.resize(exclusive_max=small).result()
        again = readers[0].open({**spec, "metadata": {}}).result()
        assert (
            again.read().result().tobytes() == np.ascontiguousarray(want[tuple(map(slice, small))]).tobytes()
        )


BASE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FORMATS = {"zarr": _zarr(), "zarr3": _zarr3(), "n5": _n5()}


@pytest.mark.parametrize("name", list(FORMATS))
def test_random_arrays(name, fresh):
    @settings(BASE, max_examples=examples(60))
    @given(case=FORMATS[name], seed=st.integers(0, 2**32))
    def check(case, seed):
        _check(case, seed, fresh)

    check()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FORMATS))
def test_many_random_arrays(name, fresh):
    @settings(BASE, max_examples=examples(1000))
    @given(case=FORMATS[name], seed=st.integers(0, 2**32))
    def check(case, seed):
        _check(case, seed, fresh)

    check()


@pytest.mark.each_once
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_every_type(driver, name, fresh):
    dtype = _dtype(name)
    if driver == "zarr":
        metadata = {"shape": [5, 4], "chunks": [2, 3], "dtype": dtype.str if dtype.isbuiltin == 1 else name}
    else:
        grid = {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}
        metadata = {"shape": [5, 4], "chunk_grid": grid, "data_type": name}
    for seed in (1, 2):
        _check(({"driver": driver, "metadata": metadata}, dtype, 2), seed, fresh)
