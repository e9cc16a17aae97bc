"""Single blocks of modes 1 and 2: what n5-java and imglib2 wrote, and the way back."""

import json
from pathlib import Path

import numpy as np
import pytest
import z5py
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.codec.gzip import Gzip
from chunkwise.core.codec.n5_parts import N5Header, parse_header, write_header
from chunkwise.core.codec.n5_varlength import (
    N5BlockData,
    decode_elements,
    decode_label_multiset,
    decode_object,
    decode_strings,
    encode_elements,
    encode_label_multiset,
    encode_object,
    encode_strings,
    parse_block,
    write_block,
)
from chunkwise.core.driver.n5.metadata import block_codec, parse_metadata
from chunkwise.core.driver.n5.tree import load_document
from chunkwise.errors import CodecError, DataCorruptionError, UnsupportedError

MANIFEST = json.loads((Path(__file__).parent / "fixtures" / "manifest.json").read_text("utf-8"))


def _blocks(*kinds):
    for entry in MANIFEST["containers"]:
        name = entry["file"].removesuffix(".n5.zip")
        for dataset in entry.get("block_datasets", ()):
            for block in dataset["blocks"] if dataset["kind"] in kinds else ():
                key = f"{dataset['path']}/" + "/".join(map(str, block["position"]))
                yield pytest.param(name, dataset, block, key, id=f"{name}:{key}")


def _parse(store, dataset, key):
    document = load_document(store[f"{dataset['path']}/attributes.json"])
    # What compresses the blocks of an object dataset, although they are no arrays
    metadata = parse_metadata({**document, "dataType": "uint8"})
    compression = block_codec(metadata).compression
    return parse_block(store[key], compression), compression


def _check_header(parsed, block):
    assert parsed.mode == block["mode"]
    assert list(parsed.dims) == block.get("header_dims", [])


@pytest.mark.parametrize(("name", "dataset", "block", "key"), list(_blocks("varlength")))
def test_variable_number_of_elements(name, dataset, block, key, container):
    store = container(name)
    parsed, compression = _parse(store, dataset, key)
    _check_header(parsed, block)
    elements = decode_elements(parsed, dataset["dataType"])
    assert elements.dtype == dataset["dataType"]
    assert elements.tolist() == block["elements"]
    again = encode_elements(elements, parsed.dims, dataset["dataType"])
    assert (again.mode, again.n_elements) == (parsed.mode, parsed.n_elements)
    written = write_block(again, compression)
    assert parse_block(written, compression, itemsize=elements.itemsize) == again
    if not compression:
        assert written == store[key]


@pytest.mark.parametrize(("name", "dataset", "block", "key"), list(_blocks("string")))
def test_strings(name, dataset, block, key, container):
    store = container(name)
    parsed, compression = _parse(store, dataset, key)
    _check_header(parsed, block)
    assert decode_strings(parsed) == block["elements"]
    again = encode_strings(block["elements"], parsed.dims)
    assert decode_strings(parse_block(write_block(again, compression), compression)) == block["elements"]
    # n5-java 4 always writes mode 1, 3 did by coincidence
    if not compression and name == "java_special":
        assert write_block(again) == store[key]


@pytest.mark.parametrize(("name", "dataset", "block", "key"), list(_blocks("object", "object_in_uint8")))
def test_objects(name, dataset, block, key, container):
    store = container(name)
    parsed, compression = _parse(store, dataset, key)
    _check_header(parsed, block)
    assert list(decode_object(parsed)) == block["elements"]
    written = write_block(encode_object(bytes(block["elements"])), compression)
    assert decode_object(parse_block(written, compression, itemsize=8)) == bytes(block["elements"])
    if not compression:
        assert written == store[key]


def _cell(dataset, block):
    return [
        min(size, n - i * size)
        for i, size, n in zip(block["position"], dataset["blockSize"], dataset["dimensions"], strict=True)
    ]


@pytest.mark.parametrize(("name", "dataset", "block", "key"), list(_blocks("label_multiset")))
def test_label_multisets(name, dataset, block, key, container):
    store = container(name)
    parsed, compression = _parse(store, dataset, key)
    _check_header(parsed, block)
    assert bytes(parsed.payload).hex() == block["payload_hex"]
    expected = [tuple((int(label), count) for label, count in cell) for cell in block["multisets"]]
    assert decode_label_multiset(parsed, _cell(dataset, block)) == expected
    again = encode_label_multiset(expected, parsed.dims)
    assert again == parsed._replace(payload=bytes(parsed.payload))
    if not compression:
        assert write_block(again) == store[key]


def test_stored_argmax_is_skipped():
    plain = encode_label_multiset([((7, 1),), ((8, 2),)], (2,))
    index, lists = bytes(plain.payload[4:12]), bytes(plain.payload[12:])
    payload = b"\0\0\0\2" + bytes(16) + index + lists
    assert decode_label_multiset(plain._replace(payload=payload), (2,)) == [((7, 1),), ((8, 2),)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xff\xff\xff" + bytes(8),
        b"\x7f\xff\xff\xff" + bytes(8),
        bytes(4) + b"\0\0\0\x63",
        bytes(4) + b"\xff\xff\xff\xfe" + bytes(20),
        bytes(8) + b"\xff\xff\xff\x7f",
        bytes(8) + b"\xff\xff\xff\xff",
        bytes(8) + b"\1\0\0\0" + bytes(11),
    ],
)
def test_damaged_multisets_are_refused(payload):
    with pytest.raises(DataCorruptionError, match="label multiset"):
        decode_label_multiset(N5BlockData(1, (1,), len(payload), payload), (1,))


multisets = st.lists(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(-(2**31), 2**31 - 1))).map(tuple), max_size=6
)


@given(multisets)
def test_multisets_round_trip(values):
    block = encode_label_multiset(values, (len(values),))
    assert decode_label_multiset(block, (len(values),)) == values


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=8))
def test_strings_round_trip(strings):
    block = encode_strings(strings, (len(strings),))
    assert decode_strings(parse_block(write_block(block))) == strings


def test_what_strings_can_not_be():
    with pytest.raises(CodecError, match="NUL"):
        encode_strings(["a\0b"], (1,))
    with pytest.raises(CodecError, match="UTF-8"):
        encode_strings(["\ud800"], (1,))
    with pytest.raises(CodecError, match="needs 2 strings, not 1"):
        encode_strings(["a"], (2, 1))
    with pytest.raises(DataCorruptionError, match="has 2 strings, expected 1"):
        decode_strings(N5BlockData(1, (1,), 4, b"a\0b\0"))
    with pytest.raises(DataCorruptionError, match="UTF-8"):
        decode_strings(N5BlockData(1, (1,), 2, b"\xff\0"))
    with pytest.raises(DataCorruptionError, match="has 1 strings only"):
        decode_strings(N5BlockData(1, (2**31, 2**31), 2, b"a\0"))


@pytest.mark.parametrize("n_missing", [0, 1, 2**20, 2**20 + 1, 2**20 + 9])
@pytest.mark.parametrize("nbytes", [2, 2**20, 2**20 + 9])
def test_as_many_strings_may_be_missing_as_a_mebibyte_or_the_block_has_bytes(n_missing, nbytes):
    """A header of a few bytes can't make a list that fills memory."""
    strings = ["a" * (nbytes - 1)]
    block = N5BlockData(1, (1 + n_missing,), nbytes, strings[0].encode() + b"\0")
    if n_missing > max(nbytes, 2**20):
        with pytest.raises(DataCorruptionError, match="has 1 strings only"):
            decode_strings(block)
    else:
        assert decode_strings(block) == strings + [""] * n_missing


@pytest.mark.parametrize("compression", [(), (Gzip(),)], ids=["raw", "gzip"])
@pytest.mark.parametrize("itemsize", [1, 8])
@pytest.mark.parametrize(("nbytes", "most"), [(100, 1 << 26), (4096, 1 << 27)])
def test_a_header_is_believed_up_to_64_mebibytes_or_32768_times_the_stored_size(
    nbytes, most, itemsize, compression
):
    for n, message in ((most // itemsize, "^(?!.*promises .* bytes$)"), (most // itemsize + 1, "promises")):
        head = write_header(1, (5,), n)
        with pytest.raises(DataCorruptionError, match=message):
            parse_block(head + b"x" * (nbytes - len(head)), compression, itemsize=itemsize)


def test_headers_in_the_three_modes():
    assert write_header(0, (2, 3)) == bytes.fromhex("0000000200000002 00000003")
    assert write_header(1, (4,), 3) == bytes.fromhex("00010001 00000004 00000003")
    assert write_header(2, element_count=3) == bytes.fromhex("0002 00000003")
    assert parse_header(bytes.fromhex("0002 00000003 090807")) == N5Header(2, (), 3, 6)
    with pytest.raises(CodecError, match="32-bit"):
        write_header(0, (2**32,))
    with pytest.raises(CodecError, match="element count None"):
        write_header(1, (2,))


def test_objects_are_not_an_array():
    metadata = parse_metadata(
        {"dimensions": [3], "blockSize": [1], "dataType": "object", "compression": {"type": "raw"}}
    )
    with pytest.raises(UnsupportedError, match="opaque bytes"):
        block_codec(metadata)


@pytest.mark.parametrize("compression", ["raw", "gzip"])
def test_z5py_reads_and_is_read(compression, tmp_path):
    values = np.array([1, 2**63, 3, 4, 5, 6], "u8")
    with z5py.File(str(tmp_path / "a.n5"), mode="w", use_zarr_format=False) as root:
        dataset = root.create_dataset("x", shape=(8,), chunks=(4,), dtype="u8", compression=compression)
        dataset.write_chunk((0,), values, True)
    folder = tmp_path / "a.n5" / "x"
    codecs = block_codec(parse_metadata(load_document((folder / "attributes.json").read_bytes()))).compression
    block = parse_block((folder / "0").read_bytes(), codecs, itemsize=8)
    assert block.mode == 1
    np.testing.assert_array_equal(decode_elements(block, "u8"), values)
    (folder / "1").write_bytes(write_block(encode_elements(values[:3], (4,), "u8"), codecs))
    with z5py.File(str(tmp_path / "a.n5"), mode="r", use_zarr_format=False) as root:
        np.testing.assert_array_equal(root["x"].read_chunk((1,)), values[:3])


def test_what_each_mode_can_not_hold():
    block = N5BlockData(2, (), 3, b"abc")
    for decode in (lambda data: decode_elements(data, "u1"), decode_strings):
        with pytest.raises(DataCorruptionError, match=r"Unexpected N5 chunk mode: 2$"):
            decode(block)
    for mode in (0, 1):
        with pytest.raises(DataCorruptionError, match=f"Unexpected N5 chunk mode: {mode}; expected 2"):
            decode_object(block._replace(mode=mode))
    with pytest.raises(DataCorruptionError, match="header promises 4"):
        decode_object(block._replace(n_elements=4))
    with pytest.raises(DataCorruptionError, match="Expected header of length 6, but chunk has size 5"):
        parse_header(b"\0\2\0\0\0")
    with pytest.raises(CodecError, match="needs 6 multisets, not 1"):
        encode_label_multiset([((1, 1),)], (2, 3))
    for entry in ((2**64, 1), (-1, 1), (1, 2**31), ("a", 1)):
        with pytest.raises(CodecError, match=r"label multiset .*: "):
            encode_label_multiset([(entry,)], (1,))
