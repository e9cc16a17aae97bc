"""Dimension labels: quoting, uniqueness, and finding a dimension by number or label."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise

from chunkwise.errors import InvalidArgumentError, OutOfBoundsError

__all__ = ["MAX_RANK", "check_index", "check_unique", "escape", "find_dimension", "merge_labels", "quote"]

MAX_RANK = 32

_ESCAPES = {0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x22: '\\"', 0x27: "\\'", 0x5C: "\\\\"}
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


def escape(text: str) -> str:
    """Return `text` as the inside of a C string: UTF-8 bytes that don't print become ``\\xhh``."""
    out = []
    after_hex = False
    for byte in text.encode("utf-8", "surrogatepass"):
        if byte in _ESCAPES:
            out.append(_ESCAPES[byte])
            after_hex = False
        elif not 0x20 <= byte < 0x7F or (after_hex and byte in _HEX_DIGITS):
            # A digit after \xhh would be read as part of it.
            out.append(f"\\x{byte:02x}")
            after_hex = True
        else:
            out.append(chr(byte))
            after_hex = False
    return "".join(out)


def quote(label: str) -> str:
    """Return `label` in double quotes, escaped."""
    return f'"{escape(label)}"'


def check_unique(labels: Sequence[str]) -> None:
    """Raise InvalidArgumentError if a label other than the empty one occurs twice."""
    named = [label for label in labels if label]
    if len(set(named)) != len(named):
        named.sort()
        again = [quote(b) for a, b in pairwise(named) if a == b]
        raise InvalidArgumentError(f"Dimension label(s) {', '.join(again)} not unique")


def merge_labels(a: str, b: str) -> str:
    """Return the label of a dimension that two sources describe; the empty label yields."""
    if a and b and a != b:
        raise InvalidArgumentError("Dimension labels do not match")
    return a or b


def check_index(index: int, rank: int) -> int:
    """Return dimension number `index`, counted from the end if negative, as one in ``[0, rank)``."""
    if not -rank <= index < rank:
        raise OutOfBoundsError(f"Dimension index {index} is outside valid range [-{rank}, {rank})")
    return index if index >= 0 else index + rank


def find_dimension(identifier: int | str, labels: Sequence[str]) -> int:
    """Return the number of the dimension that has the given number or label."""
    if not isinstance(identifier, str):
        return check_index(operator.index(identifier), len(labels))
    if not identifier:
        raise OutOfBoundsError("Dimension cannot be specified by empty label")
    if identifier not in labels:
        error = OutOfBoundsError(f"Label {quote(identifier)} does not match one of {_braced(labels)}")
        if not any(labels):
            error.add_note(
                "the dimensions have no names, as in Zarr v2, where they are attributes: "
                "array[chunkwise.d[:].label[names]] gives names to them"
            )
        raise error
    return labels.index(identifier)


def _braced(labels: Iterable[str]) -> str:
    return "{" + ", ".join(quote(label) for label in labels) + "}"
