"""Whatever JSON a parser is given: it takes it, or refuses it with an error of this library."""

from __future__ import annotations

import copy
import math
import random

import pytest

from chunkwise.core.base import catalogue
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.codec.chain import parse_codec
from chunkwise.core.driver.n5.metadata import parse_metadata as parse_n5
from chunkwise.core.driver.zarr1.tree import to_zarr2
from chunkwise.core.driver.zarr2.metadata import parse_metadata as parse_zarr2
from chunkwise.core.driver.zarr3.constraints import parse_constraints as parse_zarr3_constraints
from chunkwise.core.driver.zarr3.metadata import parse_grid, parse_key_encoding
from chunkwise.core.driver.zarr3.metadata import parse_metadata as parse_zarr3
from chunkwise.core.dtypes.data_type import DataType, dtypes
from chunkwise.core.dtypes.fill_value import fill_value_from_json
from chunkwise.core.dtypes.zarr2 import parse_fill_value_zarr2
from chunkwise.core.dtypes.zarr3 import parse_fill_value_zarr3
from chunkwise.errors import ChunkwiseError

# Every type of JSON and every magnitude: ends of integer and floating-point types, text that is no Unicode.
VALUES = [
    *(None, True, False, 0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**62, 2**63),
    *(-(2**63), 2**64, -(2**64), 2**200, 10**400, -(10**400), 0.0, -0.0, 0.5, 1.0, -1.5, 1e300, 1e-320),
    *(
        math.inf,
        -math.inf,
        math.nan,
        "",
        "0",
        "-1",
        "text",
        "é",
        "\ud800",
        "\0",
        "x" * 10_000,
        "NaN",
        "Infinity",
    ),
    *(
        "0x",
        "0x1",
        "0xffffffffffffffffff",
        "1e400",
        "9" * 5000,
        "AAAA",
        "AAAAAAAAAAA=",
        "NaT",
        "<f8",
        "|O",
        "<M8",
    ),
    *(
        "<M8[s]",
        "|S0",
        "<U99999999999999999999",
        "r8",
        "r99999999999999999999",
        "struct",
        "bytes",
        "little",
        "C",
    ),
    *(
        [],
        [[]],
        [0],
        [1, 2],
        [-1, 2],
        [2**63, 1],
        [1.5, "a"],
        [None],
        [[1, 2], [3]],
        [10**400, 1],
        ["\ud800"],
    ),
    *({}, {"a": 1}, {"name": "bytes"}, {"name": None}, {"name": "gzip", "configuration": []}, {"id": "zlib"}),
    *({"name": "\ud800"}, {"type": "gzip"}, {"real": 1, "imag": 2}, {"configuration": {}}, {"x": 10**400}),
]
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
DEEP: list[object] = []
for _ in range(100):
    DEEP = [DEEP]

ZARR3 = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4, 6],
    "data_type": "uint16",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "fill_value": 0,
    "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE],
    "attributes": {"a": 1},
    "dimension_names": ["x", None],
    "storage_transformers": [],
}
RECTILINEAR = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[2, [1, 2]], 3]}}
SHARDING = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [1, 3],
        "codecs": [LITTLE, {"name": "zstd", "configuration": {"level": 1}}],
        "index_codecs": [LITTLE, {"name": "crc32c"}],
        "index_location": "end",
    },
}
FIELDS = [{"name": "a", "data_type": "int16"}, {"name": "b", "data_type": {"name": "r16"}}]
STRUCT = {"name": "struct", "configuration": {"fields": FIELDS}}
TIME = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}
ZARR2 = {
    "zarr_format": 2,
    "shape": [4, 6],
    "chunks": [2, 3],
    "dtype": "<u2",
    "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
    "fill_value": 0,
    "order": "C",
    "filters": [{"id": "delta", "dtype": "<u2"}],
    "dimension_separator": ".",
}
N5 = {
    "dimensions": [4, 6],
    "blockSize": [2, 3],
    "dataType": "uint16",
    "compression": {"type": "gzip", "level": -1, "useZlib": False},
    "axes": ["x", "y"],
    "units": ["nm", "nm"],
    "resolution": [1, 2],
}
ZARR1 = {
    "zarr_format": 1,
    "shape": [4],
    "chunks": [2],
    "dtype": "<u2",
    "compression": "blosc",
    "compression_opts": {"cname": "lz4", "clevel": 5, "shuffle": 1},
    "fill_value": 0,
    "order": "C",
}
DOCUMENTS = {
    "zarr3": (parse_zarr3, ZARR3),
    "zarr3 rectilinear": (parse_zarr3, {**ZARR3, "chunk_grid": RECTILINEAR, "codecs": [LITTLE]}),
    "zarr3 shards": (parse_zarr3, {**ZARR3, "codecs": [SHARDING]}),
    "zarr3 record": (
        parse_zarr3,
        {**ZARR3, "data_type": STRUCT, "fill_value": {"a": 0, "b": [0, 1]}, "codecs": [LITTLE]},
    ),
    "zarr3 times": (parse_zarr3, {**ZARR3, "data_type": TIME, "fill_value": "NaT"}),
    "zarr3 constraints": (parse_zarr3_constraints, ZARR3),
    "zarr2": (parse_zarr2, ZARR2),
    "zarr2 record": (
        parse_zarr2,
        {**ZARR2, "dtype": [["a", "<i2"], ["b", "|u1", [2]]], "fill_value": None, "filters": None},
    ),
    "zarr2 objects": (
        parse_zarr2,
        {**ZARR2, "dtype": "|O", "filters": [{"id": "vlen-array", "dtype": "<i4"}], "fill_value": None},
    ),
    "zarr1": (lambda v: parse_zarr2(to_zarr2(v, stored=True)), ZARR1),
    "n5": (parse_n5, N5),
}


def _places(value, at=()):
    """Yield the paths to all parts of a document."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from _places(part, (*at, key))


def _with(document, at, value):
    if not at:
        return value
    out = copy.deepcopy(document)
    part = out
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = value
    return out


def _without(document, at):
    out = copy.deepcopy(document)
    part = out
    for key in at[:-1]:
        part = part[key]
    del part[at[-1]]
    return out


def _some(n, *seed):
    """Return some of the values, others for each place."""
    return random.Random(repr(seed)).sample([*VALUES, DEEP], n)


def _check(parse, value):
    """Call a parser; anything raised is an error of this library, with a text that can be printed."""
    try:
        parse(value)
    except ChunkwiseError as e:
        str(e).encode(errors="surrogatepass")
        return e
    except Exception as e:
        e.add_note(f"given {value!r}"[:2000])
        raise
    return None


@pytest.mark.parametrize("name", DOCUMENTS)
def test_one_part_of_a_document(name):
    """Each member and each part of it becomes something else, or is missing; the error names the member."""
    parse, document = DOCUMENTS[name]
    assert _check(parse, document) is None
    for at in _places(document):
        for value in _some(12, name, at):
            e = _check(parse, _with(document, at, copy.deepcopy(value)))
            if e is not None and at:
                assert f'"{at[0]}"' in str(e) or _together(at[0]), (
                    at,
                    value,
                    str(e),
                )
        if at:
            _check(parse, _without(document, at))


def _together(member):
    """Return True if a member is compared with others, whose errors may name those."""
    # An error of Zarr v1's codec names the "compressor" that it amounts to.
    together = ("shape", "chunks", "chunk_grid", "data_type", "dtype", "filters", "compressor", "dataType")
    return member in (*together, "dimensions", "compression", "compression_opts")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_several_parts_of_a_document(name):
    parse, document = DOCUMENTS[name]
    rng = random.Random(name)
    for _ in range(150):
        changed = document
        for _ in range(rng.randrange(2, 5)):
            changed = _with(changed, rng.choice(list(_places(changed))), copy.deepcopy(rng.choice(VALUES)))
        _check(parse, changed)


TYPES = [
    *dtypes,
    *catalogue.DATA_TYPES,
    *("S3", "U3", "V3", "datetime64[s]", "timedelta64[10ms]", '[["a","int16"],["b","V2"],["c","float32"]]'),
]


@pytest.mark.each_once
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    "parse", [parse_fill_value_zarr3, parse_fill_value_zarr2, fill_value_from_json], ids=["3", "2", "schema"]
)
def test_fill_values(name, parse):
    d = DataType(name)
    for value in [*VALUES, *([v, 0] for v in VALUES), *({"a": v, "b": v, "c": v} for v in VALUES), DEEP]:
        _check(lambda v: parse(v, d), value)


# What each codec has to have, so that the rest of its members is looked at too.
REQUIRED = {
    "astype": {"encode_dtype": "<i4", "decode_dtype": "<i8"},
    "bitround": {"keepbits": 3},
    "cast_value": {"data_type": "int16", "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}},
    "categorize": {"labels": ["a"], "dtype": "|O"},
    "delta": {"dtype": "<i4"},
    "fixedscaleoffset": {"offset": 0, "scale": 1, "dtype": "<f8", "astype": "<i4"},
    "n5_default": {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]},
    "quantize": {"digits": 2, "dtype": "<f8"},
    "reshape": {"shape": [[0, 1], 3]},
    "scale_offset": {"offset": 1, "scale": 2},
    "sharding_indexed": SHARDING["configuration"],
    "transpose": {"order": [1, 0]},
    "vlen-array": {"dtype": "<i4"},
}
MEMBERS = [
    *(
        "level",
        "cname",
        "clevel",
        "shuffle",
        "typesize",
        "blocksize",
        "checksum",
        "endian",
        "order",
        "keepbits",
    ),
    *(
        "dtype",
        "astype",
        "offset",
        "scale",
        "digits",
        "labels",
        "elementsize",
        "acceleration",
        "preset",
        "filters",
    ),
    *(
        "format",
        "check",
        "padding_encoding",
        "first_bit",
        "last_bit",
        "encoding",
        "separators",
        "indent",
        "shape",
    ),
    *(
        "location",
        "useZlib",
        "blockSize",
        "quality",
        "codecs",
        "mode",
        "tolerance",
        "rate",
        "delta_encoding_order",
    ),
]


def _codecs():
    for entry in catalogue.CODECS.values():
        for format in ("zarr3", "zarr2", "n5"):
            yield from (
                pytest.param(format, name, id=f"{format}-{name}") for name in entry.names.get(format, ())
            )


@pytest.mark.parametrize(("format", "name"), list(_codecs()))
def test_codec_configurations(format, name):
    options = REQUIRED.get(name.removeprefix("numcodecs."), {})

    def parse(options):
        if format == "zarr3":
            return parse_codec({"name": name, "configuration": options})
        return parse_codec({"id" if format == "zarr2" else "type": name, **options}, format)

    for member in MEMBERS:
        for value in _some(12, name, member):
            _check(parse, {**options, member: copy.deepcopy(value)})
    for at in _places(options):
        for value in VALUES if at else ():
            _check(parse, _with(options, at, copy.deepcopy(value)))


@pytest.mark.parametrize(
    ("parse", "value"),
    [
        (lambda v: parse_grid(v, None), ZARR3["chunk_grid"]),
        (lambda v: parse_grid(v, None), RECTILINEAR),
        (parse_key_encoding, ZARR3["chunk_key_encoding"]),
        (parse_key_encoding, {"name": "v2", "configuration": {"separator": "."}}),
    ],
    ids=["regular", "rectilinear", "default keys", "v2 keys"],
)
def test_grids_and_key_encodings(parse, value):
    for at in _places(value):
        for part in [*VALUES, DEEP]:
            _check(parse, _with(value, at, copy.deepcopy(part)))


KEYS = [
    "",
    "a",
    "1//2",
    "c/1/2",
    "c/-1/0",
    "c/1e3/0",
    "c/\u0663/0",
    "9" * 5000,
    "c/" + "9" * 5000,
    "c/\ud800/0",
]


@pytest.mark.parametrize("prefix", ["", "c"])
@pytest.mark.parametrize("separator", [".", "/"])
def test_keys(prefix, separator):
    """What is no key of a cell is none, whatever it is."""
    keys = KeyEncoding(prefix, separator, "0")
    for key in KEYS:
        _check(lambda key: keys.cell(key, 2), key)
