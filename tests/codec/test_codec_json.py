# ruff: noqa: E501  (error texts are kept on one line)
"""Codec lists as documents write them: forms, order of kinds, and what errors say."""

from __future__ import annotations

import numpy as np
import pytest

from chunkwise.core.base import catalogue
from chunkwise.core.base.registry import Entry, Registry
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import codec_to_json, codecs_to_json, parse_codec, parse_codecs, prepare_chain
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.n5_block import N5Block
from chunkwise.core.codec.n5_varlength import N5StringBlock
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.codec.zarr2 import parse_zarr2
from chunkwise.errors import CodecError, InvalidArgumentError, UnknownExtensionError, UnsupportedError

LE = {"name": "bytes", "configuration": {"endian": "little"}}
GZIP = {"name": "gzip", "configuration": {"level": 5}}


def item(dtype="u2", shape=(4, 6)):
    return ChunkSpec(shape, np.dtype(dtype), np.zeros((), dtype))


def prepare(codecs, dtype="u2", shape=(4, 6)):
    return prepare_chain(parse_codecs(codecs), item(dtype, shape))


def test_short_names_and_must_understand():
    """A bare name is a codec without configuration; a codec that is known need not be understood."""
    codecs = parse_codecs(["bytes", {"name": "gzip", "must_understand": False}, {"name": "crc32c"}])
    assert codecs == [Bytes(), Gzip(), Crc32c()]
    assert codecs_to_json(codecs) == [{"name": "bytes"}, {"name": "gzip"}, {"name": "crc32c"}]


def test_older_names_are_written_as_new_ones():
    """Aliases are read; the first name of the row is written."""
    codecs = parse_codecs([{"name": "endian", "configuration": {"endian": "big"}}, "numcodecs.zstd"])
    assert [c["name"] for c in codecs_to_json(codecs)] == ["bytes", "zstd"]


def test_bound_chain_says_every_default():
    """What a new array stores: TensorStore's defaults."""
    chain = prepare(["bytes", "gzip", "zstd", "blosc"])
    assert codecs_to_json(chain.codecs) == [
        LE,
        {"name": "gzip", "configuration": {"level": 6}},
        {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        {"name": "blosc", "configuration": {
            "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}},
    ]  # fmt: skip
    (_, blosc) = prepare(["bytes", "blosc"], "u1").codecs
    assert blosc.to_json("zarr3")["shuffle"] == "bitshuffle"


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        ([], "array -> bytes codec must be specified"),
        ([GZIP], "array -> bytes codec must be specified"),
        ([GZIP, LE], "array -> bytes codec must be specified"),
        (
            [LE, LE],
            'Expected bytes -> bytes codec, but received: {"configuration":{"endian":"little"},"name":"bytes"}',
        ),
        (
            [LE, {"name": "transpose", "configuration": {"order": [1, 0]}}],
            'Expected bytes -> bytes codec, but received: {"configuration":{"order":[1,0]},"name":"transpose"}',
        ),
        (
            [{"name": "transpose", "configuration": {"order": [0]}}, LE],
            'Error resolving codec spec through codec {"configuration":{"order":[0]},"name":"transpose"}: '
            "{0} is not a valid dimension permutation for a rank 2 array",
        ),
        (
            [LE, "foo"],
            'Error parsing value at position 1: Error parsing object member "name": codec "foo" is not registered',
        ),
        ([LE, {"name": "foo", "must_understand": False}], '"foo" is not registered'),
        (
            [LE, {"name": "gzip", "configuration": {"level": 12}}],
            'Error parsing value at position 1: Error parsing object member "configuration": Error parsing object '
            'member "level": Expected integer in the range [0, 9], but received: 12',
        ),
        ([LE, {"name": "gzip", "configuration": {"x": 2}}], 'Object includes extra members: "x"'),
        (
            [LE, {"name": "crc32c", "bar": 1}],
            'Error parsing value at position 1: Object includes extra members: "bar"',
        ),
        (
            [LE, {"name": "zstd", "configuration": {"level": -200000}}],
            "Expected integer in the range [-131072, 22]",
        ),
        (
            [LE, {"name": "blosc", "configuration": {"cname": "foo"}}],
            'Expected one of blosclz,lz4,lz4hc,snappy,zlib,zstd but received: "foo"',
        ),
        (
            [LE, {"name": "blosc", "configuration": {"typesize": 0}}],
            "Expected integer in the range [1, 2147483647]",
        ),
        (
            [LE, {"name": "blosc", "configuration": {"shuffle": 1}}],
            'Expected one of "noshuffle", "shuffle", "bitshuffle"',
        ),
        (
            [{"name": "transpose", "configuration": {"order": [0, 2]}}, LE],
            'No matching value binder: {0, 2} is not a valid permutation; Expected one of "C", "F", but received: [0,2]',
        ),
        (
            ["transpose", LE],
            'No matching value binder: Expected array, but member is missing; Expected one of "C", "F", '
            "but member is missing",
        ),
        (
            ["vlen-utf8"],
            '"vlen-utf8" codec supports only variable-length data types, but the data type is uint16',
        ),
        (
            [LE, {"name": "zstd", "configuration": {"level": 1, "checksum": "YES"}}],
            'Error parsing object member "checksum": Expected boolean, but received: "YES"',
        ),
        ([7], "Expected object, but received: 7"),
        (
            [{"configuration": {}}],
            'Error parsing object member "name": Expected string, but member is missing',
        ),
        (
            [{"name": "numcodecs.delta", "configuration": {"dtype": "<f4"}}, LE],
            "is for data type float32, but receives uint16",
        ),
        (
            [{"name": "numcodecs.delta", "configuration": {"dtype": ">u2"}}, LE],
            "is for data type >u2, but receives <u2",
        ),
        (
            [{"name": "numcodecs.delta"}, LE],
            'Error parsing object member "dtype": Expected value, but member is missing',
        ),
        (
            [{"name": "reshape", "configuration": {"shape": [5, -1]}}, LE],
            "has 24 elements, but the shape [5, 4] has 20",
        ),
        (
            [{"name": "reshape", "configuration": {"shape": [[1], [0]]}}, LE],
            "Expected input dimensions in increasing order",
        ),
        ([{"name": "reshape", "configuration": {"shape": [-1, -1]}}, LE], "Expected -1 at most once"),
        (
            [{"name": "reshape", "configuration": {"shape": [2, [1], 2]}}, LE],
            "does not lie where the input dimensions [1]",
        ),
        (
            [{"name": "packbits", "configuration": {"first_bit": 4, "last_bit": 3}}],
            "are no range of the 16 bits",
        ),
        (
            [{"name": "bitround", "configuration": {"keepbits": 0}}, LE],
            "Expected integer in the range [1, 64]",
        ),
    ],
)
def test_errors(codecs, message):
    """What is wrong, and where, in TensorStore's words where it has them."""
    with pytest.raises((InvalidArgumentError, CodecError)) as e:
        prepare(codecs)
    assert message in str(e.value)


def shard(**options):
    configuration = {
        "chunk_shape": [2, 3],
        "codecs": [LE],
        "index_codecs": [LE, {"name": "crc32c"}],
        **options,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        (
            [shard(chunk_shape=[3, 3])],
            "sharding_indexed sub-chunk shape of {3, 3} does not evenly divide chunk shape of {4, 6}",
        ),
        (
            [shard(chunk_shape=[2])],
            "sharding_indexed sub-chunk shape of {2} is not compatible with array of rank 2",
        ),
        (
            [shard(chunk_shape=[0, 3])],
            'Error parsing object member "chunk_shape": Error parsing value at position 0: '
            "Expected integer in the range [1, 9223372036854775807], but received: 0",
        ),
        (
            [shard(index_codecs=[LE, GZIP])],
            "Invalid index_codecs specified: only fixed-size encodings are supported",
        ),
        (
            [shard(index_location="mid")],
            'Error parsing object member "index_location": Expected one of "start", "end", '
            'but received: "mid"',
        ),
        (
            [shard(codecs=[GZIP])],
            'Error parsing object member "codecs": array -> bytes codec must be specified',
        ),
    ],
)
def test_shard_errors(codecs, message):
    """What is wrong with a shard, in TensorStore's words."""
    with pytest.raises(InvalidArgumentError) as e:
        prepare(codecs)
    assert message in str(e.value)


def test_pickle_is_refused():
    """No pickle is ever decoded, not even opened."""
    with pytest.raises(UnsupportedError, match="would run code from the stored chunks"):
        parse_zarr2(None, [{"id": "pickle"}], np.dtype("O"), "C")


@pytest.mark.parametrize(
    ("config", "package"),
    [
        ({"id": "imagecodecs_jpeg2k"}, "imagecodecs"),
        ({"id": "zfpy", "mode": 4}, "zfpy"),
        ({"id": "pcodec"}, "pcodec"),
    ],
)
def test_missing_package_is_named(config, package, monkeypatch):
    """A compressor of a package that is not installed says which one."""
    monkeypatch.setitem(__import__("sys").modules, "imagecodecs.numcodecs", None)
    with pytest.raises(UnsupportedError, match=f"needs {package}: pip install "):
        parse_zarr2(config, None, np.dtype("f4"), "C")


def test_missing_msgpack_is_named(monkeypatch):
    """The same for MessagePack, when the codec is bound."""
    monkeypatch.setitem(__import__("sys").modules, "msgpack", None)
    with pytest.raises(UnsupportedError, match="needs msgpack: pip install msgpack"):
        prepare_chain(parse_zarr2(None, [{"id": "msgpack2"}], np.dtype("O"), "C"), item("O"))


def test_zarr2_errors_name_the_place():
    """The member and its position."""
    with pytest.raises(
        UnknownExtensionError, match=r'member "compressor": .* member "id": codec "foo" is not registered'
    ):
        parse_zarr2({"id": "foo"}, None, np.dtype("f4"), "C")
    with pytest.raises(InvalidArgumentError, match=r'member "filters/1": .* member "id": Expected string'):
        parse_zarr2(None, [{"id": "shuffle"}, {}], np.dtype("f4"), "C")


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("<u2", Bytes("little")), (">u2", Bytes("big")), ("|u1", Bytes()), ("|S4", Bytes()),
     (">U4", Bytes("big")),
     (">M8[ns]", Bytes("big")), ("|b1", Bytes())],
)  # fmt: skip
def test_zarr2_byte_order(dtype, expected):
    """The byte order of the elements is that of the ``dtype`` member."""
    assert parse_zarr2(None, None, np.dtype(dtype), "C") == [expected]


def test_zarr2_structured_byte_orders():
    """Each field of a structured type keeps its own byte order."""
    stored = np.dtype([("a", ">u2"), ("b", "<u2", (2,)), ("c", [("d", ">f8")])])
    memory = np.dtype([("a", "u2"), ("b", "u2", (2,)), ("c", [("d", "f8")])])
    array = np.zeros(3, memory)
    array["a"], array["b"], array["c"]["d"] = 1, 2, 3
    chain = prepare_chain(parse_zarr2(None, None, stored, "C"), item(memory, (3,)))
    encoded = bytes(chain.open_encoder()(array))
    assert encoded == array.astype(stored).tobytes()
    out = np.zeros(3, memory)
    chain.open_decoder()(encoded, out)
    assert (out == array).all()
    with pytest.raises(UnsupportedError, match="byte order for each field"):
        codecs_to_json(chain.codecs)


def test_zarr2_and_n5_forms():
    """The name is a member next to the options."""
    for format, value in (
        ("zarr2", {"id": "zstd", "level": 3}), ("zarr2", {"id": "zstd", "level": 3, "checksum": True}),
        ("n5", {"type": "gzip", "level": 3, "useZlib": False}),
        ("n5", {"type": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2, "blocksize": 9}),
    ):  # fmt: skip
        assert codec_to_json(parse_codec(value, format), format) == value
    with pytest.raises(InvalidArgumentError, match="can't be written in format n5"):
        codec_to_json(Crc32c(), "n5")


def test_a_class_that_is_no_codec_is_refused_by_name(monkeypatch):
    """What is registered has to derive from one of the three kinds."""
    found = Registry("codec", {"plain": Entry("builtins:dict", zarr3=("plain",))}, "chunkwise.codecs")
    monkeypatch.setattr(catalogue, "codecs", found)
    with pytest.raises(
        ValueError, match=r'codec "plain" is registered as .*dict.*expected a subclass of ArrayToArray'
    ):
        parse_codecs(["plain"])


@pytest.mark.parametrize("kind", [N5Block, N5StringBlock])
def test_n5_blocks_take_as_long_as_their_compressors(kind):
    """Threads are chosen by it, as for the same compressor in Zarr."""
    compression = (Gzip(1),)
    assert kind().decode_rate == kind().encode_rate == 0
    assert kind(compression).decode_rate == compression[0].decode_rate > 0
    assert kind(compression).encode_rate == compression[0].encode_rate > 0


def test_a_checksum_at_the_start_has_no_form_in_zarr3() -> None:
    """Without its location it would be looked for at the end."""
    assert [Crc32c(location).to_json("zarr3") for location in (None, "end")] == [{}, {}]
    assert Crc32c("start").to_json("zarr2") == {"location": "start"}
    with pytest.raises(UnsupportedError, match="the checksum is at the end"):
        Crc32c("start").to_json("zarr3")


@pytest.mark.parametrize("rank", [0, 1, 31, 32, 33])
def test_an_order_has_at_most_32_dimensions(rank):
    document = {"name": "transpose", "configuration": {"order": [*range(rank)][::-1]}}
    if rank <= 32:
        assert parse_codec(document).to_json("zarr3") == document["configuration"]
        return
    with pytest.raises(InvalidArgumentError, match="32"):
        parse_codec(document)


@pytest.mark.parametrize(
    ("codecs", "dtype", "message"),
    [
        (["packbits"], "V3", '"packbits" codec does not support data type |V3'),
        (["packbits"], "U2", '"packbits" codec does not support data type <U2'),
        (
            [{"name": "bitround", "configuration": {"keepbits": 3}}, LE],
            "V4",
            '"bitround" codec does not support data type |V4',
        ),
        (
            [{"name": "scale_offset", "configuration": {"scale": 2}}, LE],
            "?",
            '"scale_offset" codec supports real numbers only, but the data type is bool',
        ),
        (
            [{"name": "numcodecs.packbits"}, LE],
            "u1",
            '"packbits" codec is for data type bool, but receives uint8',
        ),
        (
            [{"name": "reshape", "configuration": {"shape": [[0, 2], -1]}}, LE],
            "u1",
            '"reshape" codec: input dimensions [0, 2] are not all below the rank 2',
        ),
    ],
)
def test_arrays_that_a_codec_does_not_take(codecs, dtype, message):
    """The codec says so when it is bound, before anything is stored."""
    with pytest.raises((InvalidArgumentError, CodecError)) as e:
        prepare(codecs, dtype)
    assert message in str(e.value)
