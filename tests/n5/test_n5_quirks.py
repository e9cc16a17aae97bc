"""Unusual and malformed nodes: what the quirk table expects, at the level of documents and blocks."""

import json
from pathlib import Path

import numpy as np
import pytest

from chunkwise.core.driver.n5.tree import is_dataset, load_document
from chunkwise.errors import ChunkwiseError

QUIRKS = json.loads((Path(__file__).parent / "fixtures" / "quirks.json").read_text("utf-8"))

# Where "array_or_error" leaves the choice: what this implementation does.
READ = {
    "block_larger_than_blocksize",
    "gzip_data_flag_zlib",
    "zlib_data_no_flag",
    "bzip2_two_streams",
    "xz_two_streams",
    "xz_is_lzma_alone",
    "with_codecs",
}
REFUSED = {
    "trailing_bytes": "End of data expected; remaining length",
    "compression_string": 'Expected object, but received: "raw"',
}
ERRORS = {
    "header_ndim_mismatch": "Received chunk with 1 dimensions but expected 2",
    "short_payload": "Not enough data",
    "header_only": "Not enough data",
    "empty_file": "Expected header of length 12, but chunk has size 0",
    "varlength_more": "varlength chunks not supported: block of size .* has 8 elements",
    "varlength_fewer": "varlength chunks not supported: block of size .* has 2 elements",
    "mode_2": "Unexpected N5 chunk mode: 2",
    "mode_3": "Unexpected N5 chunk mode: 3",
    "compression_null": "Expected object, but received: null",
    "compression_unknown": '"snappyish" is not registered',
    "datatype_upper": 'Unsupported data type: "UINT16"',
    "datatype_unknown": "float16 data type is not one of the supported data types",
}


def _rows(*expect):
    return [pytest.param(row, id=row["path"]) for row in QUIRKS if row["expect"] in expect]


def _document(store, path):
    raw = store.get(f"{path}/attributes.json")
    return None if raw is None else load_document(raw)


@pytest.mark.parametrize("row", _rows("array", "array_or_error"))
def test_array(row, container, read_dense):
    store = container("quirks")
    assert is_dataset(_document(store, row["path"]))
    if row["path"] in REFUSED:
        with pytest.raises(ChunkwiseError, match=REFUSED[row["path"]]):
            read_dense(store, row["path"])
        return
    assert row["expect"] == "array" or row["path"] in READ
    np.testing.assert_array_equal(read_dense(store, row["path"]).T, row["values_numpy"])


@pytest.mark.parametrize("row", _rows("error"))
def test_error(row, container, read_dense):
    store = container("quirks")
    assert is_dataset(_document(store, row["path"]))
    with pytest.raises(ChunkwiseError, match=ERRORS[row["path"]]):
        read_dense(store, row["path"])


@pytest.mark.parametrize("row", _rows("group"))
def test_group(row, container):
    document = _document(container("quirks"), row["path"])
    assert document is None or not is_dataset(document)
