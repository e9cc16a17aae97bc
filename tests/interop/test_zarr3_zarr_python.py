"""Zarr v3 against zarr-python, both ways, over random metadata, shards and nested chains included."""

import json

import numpy as np
import pytest
import zarr
import zarr.codecs as zc
import zarr.codecs.numcodecs as zn
import zarr.dtype as zd
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as ts

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

SIMPLE = [
    *("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16"),
    *("|S1", "|S5", "|S300", "<U3", "<U100", "|V6", "<M8[ns]", "<M8[10ms]", "<M8[D]", "<m8[s]", "<m8[25us]"),
]
INDEX_CODECS = [
    [zc.BytesCodec(), zc.Crc32cCodec()],
    [zc.BytesCodec(endian="big")],
    [zc.BytesCodec(), zn.CRC32C(location="start")],
]
KEYS = [{"name": name, "separator": separator} for name in ("default", "v2") for separator in "./"]


def _compressors(dtype):
    n = dtype.itemsize
    return [
        (),
        (zc.GzipCodec(level=1),),
        (zc.ZstdCodec(level=1),),
        (zc.ZstdCodec(level=3, checksum=True),),
        (zc.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=n),),
        (zc.BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle", typesize=n),),
        (zc.BloscCodec(cname="blosclz", clevel=1, shuffle="noshuffle", typesize=n),),
        (zc.Crc32cCodec(),),
        (zc.ZstdCodec(level=1), zc.Crc32cCodec()),
        (zn.Zlib(level=1),),
        (zn.BZ2(level=1),),
        (zn.LZMA(preset=1),),
        (zn.LZMA(format=2),),
        (zn.LZMA(format=3, filters=[{"id": 0x21, "preset": 1}]),),
        (zn.LZ4(),),
        (zn.LZ4(acceleration=3),),
        (zn.CRC32(),),
        (zn.CRC32(location="end"),),
        (zn.CRC32C(),),
        (zn.CRC32C(location="start"),),
        (zn.Adler32(),),
        (zn.Fletcher32(),),
        (zn.JenkinsLookup3(),),
        (zn.Shuffle(elementsize=n), zn.Zlib(level=1)),
        (zn.GZip(level=1),),
        (zn.Zstd(level=1),),
        (zn.Blosc(cname="lz4", shuffle=2),),
        (zn.Blosc(cname="zstd", shuffle=-1),),
    ]


def _fill_values(dtype):
    kind = dtype.kind
    if kind in "iu":
        return [0, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)]
    if kind in "mM":
        return [np.array("NaT", dtype)[()], np.array(5, "i8").view(dtype)[()]]
    if kind == "f":
        payload = np.array([1, 128, 192, 127][: dtype.itemsize] * (2 if dtype.itemsize == 8 else 1), "u1")
        hexed = payload.view(dtype)[0] if dtype.itemsize == 4 else dtype.type(2.5)
        return [0.0, -0.0, float("nan"), float("inf"), -float("inf"), hexed]
    return {
        "b": [False, True],
        "c": [0j, complex(1, -2), complex(float("nan"), -float("inf"))],
        "S": [b"", b"a"],
        "U": ["", "é"],
        "V": [np.void(b"\0" * dtype.itemsize), np.void(b"\x01\xff" + b"\0" * (dtype.itemsize - 2))],
    }[kind]


@st.composite
def _filters(draw, dtype, rank):
    """Codecs from array to array, and whether values survive them."""
    found = [((), True)] * 3
    if rank:
        found.append(((zc.TransposeCodec(order=tuple(draw(st.permutations(range(rank))))),), True))
    if dtype.kind in "iu":
        found.append(((zn.Delta(dtype=dtype.str),), True))
    if dtype.kind == "b":
        found.append(((zn.PackBits(),), True))
    if dtype.kind == "f" and dtype.itemsize > 2:
        found += [
            ((zn.FixedScaleOffset(offset=1, scale=10, dtype=dtype.str, astype="<i4"),), False),
            ((zn.Quantize(digits=2, dtype=dtype.str),), False),
            ((zn.BitRound(keepbits=4),), False),
        ]
    return draw(st.sampled_from(found))


@st.composite
def _cases(draw):
    dtype = np.dtype(draw(st.sampled_from(SIMPLE)))
    # zarr-python gives a scalar of another type for rank 0 and text
    rank = draw(st.integers(1 if dtype.kind in "SU" else 0, 3))
    chunks = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    filters, exact = draw(_filters(dtype, rank))
    compressors = draw(st.sampled_from(_compressors(dtype)))
    # zarr-python mixes up byte orders if a filter of NumCodecs comes first
    big = (
        dtype.kind in "iufc"
        and dtype.itemsize > 1
        and (not filters or isinstance(filters[0], zc.TransposeCodec))
    )
    serializer = zc.BytesCodec(endian=draw(st.sampled_from(["little", "big"])) if big else "little")
    case = {
        "shape": tuple(draw(st.integers(0, 7)) for _ in range(rank)),
        "dtype": dtype,
        # zarr-python warns of a NaN that doesn't survive its filters
        "fill_value": draw(st.sampled_from(_fill_values(dtype) if exact else [0.0, 1.5])),
        "chunk_key_encoding": draw(st.sampled_from(KEYS)),
        "dimension_names": draw(st.sampled_from([None, ["x", None, "z"][:rank]])),
        "attributes": draw(st.sampled_from([{}, {"a": [1, {"b": None}], "é": 0.5}])),
    }
    # zarr-python can't put raw bytes into shards
    sharding = draw(st.integers(0, 4 if rank and dtype.kind != "V" else 1))
    if sharding < 2:
        case |= {"chunks": chunks, "filters": filters, "serializer": serializer, "compressors": compressors}
    else:
        codec = serializer
        inner = [*filters, serializer, *compressors]
        for _level in range(1 if sharding < 4 else 2):
            codec = zc.ShardingCodec(
                chunk_shape=chunks,
                codecs=inner,
                index_codecs=draw(st.sampled_from(INDEX_CODECS)),
                index_location=draw(st.sampled_from(["start", "end"])),
            )
            chunks = tuple(n * draw(st.integers(1, 3)) for n in chunks)
            inner = [codec]
        outside = draw(st.sampled_from([(), (), (zc.ZstdCodec(level=1),)]))
        case |= {"chunks": chunks, "filters": (), "serializer": codec, "compressors": outside}
    return case, exact


def _spec(path, **members):
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{path}/", "file_io_sync": False},
        **members,
    }


def _check(case, exact, seed, fresh, values_of, same_bits):
    rng = np.random.default_rng(seed)
    dtype, shape = case["dtype"], case["shape"]

    def random():
        return values_of(rng, dtype, shape) if exact else rng.random(shape).astype(dtype) * 100

    # they write, we read; of some arrays not all chunks are there
    theirs = fresh()
    zarr.create_array(theirs, zarr_format=3, **case)
    peer = zarr.open_array(theirs, mode="r+")
    peer[tuple(slice(0, n // 2 + 1) for n in shape) if seed % 2 else ...] = random()[
        tuple(slice(0, n // 2 + 1) for n in shape) if seed % 2 else ...
    ]
    ours = ts.open(_spec(theirs)).result()
    same_bits(ours.read().result(), zarr.open_array(theirs, mode="r")[...])
    # we change a part of it, they read
    inner = (*[slice(n // 3, n - n // 4) for n in shape], ...)
    values = random()
    ours[inner] = values[inner]
    same_bits(ours.read().result(), zarr.open_array(theirs, mode="r")[...])
    # we overwrite all of it
    ours[...] = values
    same_bits(ours.read().result(), zarr.open_array(theirs, mode="r")[...])
    if exact:
        same_bits(ours.read().result(), values)
    # we make an array like it, they read
    document = json.loads((theirs / "zarr.json").read_text())
    mine = fresh()
    store = ts.open(_spec(mine, metadata=document), create=True).result()
    store[...] = values
    same_bits(zarr.open_array(mine, mode="r")[...], zarr.open_array(theirs, mode="r")[...])
    stored = json.loads((mine / "zarr.json").read_text())
    del document["storage_transformers"]
    if not document["attributes"]:
        del document["attributes"]
    if document.get("dimension_names") == [] or set(document.get("dimension_names", ["x"])) == {None}:
        del document["dimension_names"]
    assert _with_defaults(stored.pop("codecs")) == _with_defaults(document.pop("codecs"))
    assert stored.pop("chunk_key_encoding")["name"] == document.pop("chunk_key_encoding")["name"]
    assert stored == document
    assert dict(zarr.open_array(mine, mode="r").attrs) == case["attributes"]


def _with_defaults(codecs):
    """Options that zarr-python leaves open and chunkwise writes down."""
    for codec in codecs:
        options = codec.setdefault("configuration", {})
        if codec["name"] == "sharding_indexed":
            for name in ("codecs", "index_codecs"):
                options[name] = _with_defaults(options[name])
        elif codec["name"] == "zstd":
            options.setdefault("checksum", False)  # which is to be left out
        elif codec["name"] == "bytes":
            options.setdefault("endian", "little")  # not written for records
        elif codec["name"] == "numcodecs.lzma":
            options |= {"format": 1, "check": -1, "preset": None, "filters": None, **options}
        elif codec["name"] == "numcodecs.lz4":
            options.setdefault("acceleration", 1)
        elif codec["name"] == "blosc" and options["shuffle"] == "noshuffle":
            options.pop("typesize", None)  # which then means nothing
    return codecs


BASE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@settings(BASE, max_examples=examples(90))
@given(case=_cases(), seed=st.integers(0, 2**32))
def test_random_arrays(case, seed, fresh, values_of, same_bits):
    _check(*case, seed, fresh, values_of, same_bits)


@pytest.mark.slow
@settings(BASE, max_examples=examples(900))
@given(case=_cases(), seed=st.integers(0, 2**32))
def test_many_random_arrays(case, seed, fresh, values_of, same_bits):
    _check(*case, seed, fresh, values_of, same_bits)


@pytest.mark.parametrize("dtype", SIMPLE)
def test_every_type(dtype, fresh, values_of, same_bits):
    dtype = np.dtype(dtype)
    case = {
        "shape": (5, 4),
        "chunks": (2, 3),
        "dtype": dtype,
        "fill_value": _fill_values(dtype)[0],
        "dimension_names": None,
        "attributes": {},
    }
    _check(case, True, 1, fresh, values_of, same_bits)


@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
@pytest.mark.parametrize("dtype", ["<U100", "|S300", "|S256", [("a", "|S300"), ("b", "<i4")]], ids=str)
def test_blosc_of_items_over_255_bytes(dtype, shuffle, fresh, values_of, same_bits):
    """zarr-python writes the item size as type size, which c-blosc takes for 1."""
    dtype = np.dtype(dtype)
    case = {
        "shape": (5, 4),
        "chunks": (2, 3),
        "dtype": dtype,
        "fill_value": np.zeros((), dtype)[()],
        "compressors": (zc.BloscCodec(cname="lz4", shuffle=shuffle),),
        "dimension_names": None,
        "attributes": {},
    }
    _check(case, True, 2, fresh, values_of, same_bits)


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("sharded", [False, True])
def test_values_of_variable_length(kind, sharded, fresh):
    theirs = fresh()
    dtype = zd.VariableLengthUTF8() if kind == "string" else zd.VariableLengthBytes()
    zarr.create_array(
        theirs, shape=(5, 3), chunks=(2, 2), shards=(4, 2) if sharded else None, dtype=dtype, zarr_format=3
    )
    words = ["", "a", "日本語", "x" * 300, "é\U0001f600"]
    words = words if kind == "string" else [w.encode() for w in words]
    values = np.empty((5, 3), object)
    values[...] = [[w] * 3 for w in words]
    zarr.open_array(theirs, mode="r+")[:3] = values[:3]
    store = ts.open(_spec(theirs)).result()
    assert store.dtype == (ts.ustring if kind == "string" else ts.string)
    assert store[:3].read().result().tolist() == values[:3].tolist()
    store[1:, 1] = values[::-1][1:, 1]
    values[1:, 1] = values[::-1][1:, 1].copy()
    values[3:, [0, 2]] = words[0]
    assert zarr.open_array(theirs, mode="r")[...].tolist() == values.tolist()
    mine = fresh()
    document = json.loads((theirs / "zarr.json").read_text())
    copy = ts.open(_spec(mine, metadata=document), create=True).result()
    copy[...] = values
    assert zarr.open_array(mine, mode="r")[...].tolist() == values.tolist()
    fresh_one = fresh()
    ts.open(_spec(fresh_one), create=True, dtype=store.dtype, shape=(5, 3)).result()[...] = values
    assert zarr.open_array(fresh_one, mode="r")[...].tolist() == values.tolist()


@pytest.mark.parametrize(
    "fields",
    [
        [("a", "<i4"), ("b", "|u1")],
        [("a", "<f4"), ("b", "|S3"), ("c", "<u2")],
        [("x", [("p", "<i2"), ("q", "<f8")]), ("y", "|b1")],
    ],
    ids=["plain", "bytes", "nested"],
)
def test_structured(fields, fresh, values_of, same_bits):
    rng = np.random.default_rng(3)
    dtype = np.dtype(fields)
    theirs = fresh()
    zarr.create_array(
        theirs, shape=(5, 4), chunks=(2, 3), dtype=dtype, zarr_format=3, fill_value=np.ones((), dtype)[()]
    )
    values = values_of(rng, dtype, (5, 4))
    zarr.open_array(theirs, mode="r+")[:2] = values[:2]
    store = ts.open(_spec(theirs)).result()
    same_bits(store.read().result(), zarr.open_array(theirs, mode="r")[...])
    store[1:4, ::2] = values[1:4, ::2]
    same_bits(store.read().result(), zarr.open_array(theirs, mode="r")[...])
    mine = fresh()
    document = json.loads((theirs / "zarr.json").read_text())
    ts.open(_spec(mine, metadata=document), create=True).result()[...] = values
    same_bits(zarr.open_array(mine, mode="r")[...], values)


def test_attributes_and_names_outlive_a_resize(fresh):
    theirs = fresh()
    peer = zarr.create_array(
        theirs, shape=(5,), chunks=(2,), dtype="i4", attributes={"a": [1]}, dimension_names=["t"]
    )
    peer[:] = range(5)
    store = ts.open(_spec(theirs)).result()
    assert store.domain.labels == ("t",)
    store = store.resize(exclusive_max=[9]).result()
    store[5:] = range(4)
    again = zarr.open_array(theirs, mode="r")
    assert again[:].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3] and dict(again.attrs) == {"a": [1]}
    assert again.metadata.dimension_names == ("t",)
