"""The ``pickle`` codec of Zarr v2, which is refused.

Decoding a pickle runs any code that its author put in.  Others can write chunks in storage, so pickles are
neither read nor written; the error says how to convert such an array.

Names
-----
zarr2: ``pickle``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

from chunkwise.core.codec.protocol import ArrayToBytes
from chunkwise.errors import UnsupportedError

__all__ = ["Pickle"]


class Pickle(ArrayToBytes):
    """Array to bytes, never parsed: decoding would execute stored code."""

    name: ClassVar[str] = "pickle"
    object_dtype: ClassVar[str] = "json"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> NoReturn:
        raise UnsupportedError(
            '"pickle" codec is refused: decoding it would run code from the stored chunks. '
            'Convert the array to "vlen-utf8", "vlen-bytes" or "json2" with a program that trusts it.'
        )
