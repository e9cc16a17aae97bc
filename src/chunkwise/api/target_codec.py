"""The compressor of an array of a given form, in the words of a format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkwise.api.compressor import Compressor, compressor_to_json
from chunkwise.api.form import Form
from chunkwise.errors import InvalidArgumentError

__all__ = ["codec_json"]

_FALLBACK = Compressor("zstd", 3)


def codec_json(form: Form, format: str, given: Sequence[str], notes: list[str]) -> Any:
    """Return the compressor in the words of `format`."""
    codec = form.codec
    if isinstance(codec, Compressor):
        try:
            return compressor_to_json(codec, format)
        except InvalidArgumentError:
            if "codec" in given:
                raise
    if "codec" in given or (format == form.format and codec is not None):
        return codec
    if form.format is not None:
        notes.append(f"the codecs of the source aren't those of {format}; zstd:3 takes their place")
    return compressor_to_json(_FALLBACK, format)
