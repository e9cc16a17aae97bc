"""Parts of N5 for the folders outside the core: documents, data types, blocks as they are stored.

These names are not promised: they may change from one version to the next.
"""

from __future__ import annotations

from chunkwise.core.codec.n5_parts import VARLENGTH, parse_compression, parse_header, read_compression
from chunkwise.core.codec.n5_varlength import (
    BACKGROUND,
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
from chunkwise.core.driver.n5.format import FORMAT as N5_FORMAT
from chunkwise.core.driver.n5.format import N5Format
from chunkwise.core.driver.n5.metadata import (
    ITEM_NBYTES,
    array_data_type,
    dtype_of,
    parse_array_data_type,
    parse_metadata,
)
from chunkwise.core.driver.n5.tree import (
    ATTRIBUTES_KEY,
    NUMERIC_VERSION,
    dump_document,
    is_dataset,
    is_marker,
    load_document,
)
from chunkwise.core.trees.container import mark_container

__all__ = [
    "ATTRIBUTES_KEY",
    "BACKGROUND",
    "ITEM_NBYTES",
    "N5_FORMAT",
    "NUMERIC_VERSION",
    "VARLENGTH",
    "N5BlockData",
    "N5Format",
    "array_data_type",
    "decode_elements",
    "decode_label_multiset",
    "decode_object",
    "decode_strings",
    "dtype_of",
    "dump_document",
    "encode_elements",
    "encode_label_multiset",
    "encode_object",
    "encode_strings",
    "is_dataset",
    "is_marker",
    "load_document",
    "mark_container",
    "parse_array_data_type",
    "parse_block",
    "parse_compression",
    "parse_header",
    "parse_metadata",
    "read_compression",
    "write_block",
]
