"""Formats of arrays, for the neighbours of the core: documents, data types and codecs in each format's words.

N5 has a module of its own.  These names are not promised: they may change from one version to the next.
"""

from __future__ import annotations

from chunkwise.core.codec.chain import codec_to_json, parse_codec, parse_codecs
from chunkwise.core.driver.chunked.documents import cached_metadata, layout_of
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.zarr2.format import Zarr2Format
from chunkwise.core.driver.zarr3.codec_constraints import as_written
from chunkwise.core.driver.zarr3.format import FORMAT as ZARR3_FORMAT
from chunkwise.core.driver.zarr3.format import Zarr3Format
from chunkwise.core.dtypes.zarr2 import fill_value_to_zarr2, parse_zarr2, to_zarr2
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, parse_zarr3, to_zarr3

__all__ = [
    "ZARR3_FORMAT",
    "Format",
    "Zarr2Format",
    "Zarr3Format",
    "as_written",
    "cached_metadata",
    "codec_to_json",
    "fill_value_to_zarr2",
    "fill_value_to_zarr3",
    "layout_of",
    "parse_codec",
    "parse_codecs",
    "parse_zarr2",
    "parse_zarr3",
    "to_zarr2",
    "to_zarr3",
]
