"""Arguments of Python calls, converted as TensorStore converts them: to a flag, a number or text.

An object of another kind raises a TypeError that names the argument.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any, NoReturn, SupportsFloat, SupportsIndex, TypeVar, overload

from chunkwise.errors import InvalidArgumentError

__all__ = [
    "as_flag",
    "as_float",
    "as_int64",
    "as_integer",
    "as_items",
    "as_nbytes",
    "as_sequence",
    "as_text",
    "check_choice",
    "check_flag",
    "check_same_type",
    "is_text",
    "open_first",
]

T = TypeVar("T")

_NBYTES = r"([0-9]+\.?[0-9]*)\s*([kKMGT]?)(i?)B?"


def is_text(value: object) -> bool:
    """Return True if `value` is a string or bytes."""
    return isinstance(value, str | bytes)


def open_first(value: object) -> str:
    """Return a hint to open `value` if it is a location and not an array; the empty string otherwise."""
    is_place = isinstance(value, str | os.PathLike | Mapping)
    return "; open it first, with chunkwise.open(...).result()" if is_place else ""


def as_text(value: object, name: str) -> str:
    """Return text; bytes are decoded as UTF-8."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass")
    raise TypeError(f"{name} must be a string, not {value!r}")


def as_flag(value: object, name: str) -> bool:
    """Return the truth value of None, a boolean, a number, or any other object with a ``__bool__``."""
    if value is None or hasattr(type(value), "__bool__"):
        return bool(value)
    raise TypeError(f"Invalid {name}: expected a boolean, but received {value!r}")


def as_int64(value: SupportsIndex, name: str) -> int:
    """Return an integer that fits 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if not -(2**63) <= number < 2**63:
        raise TypeError(f"{name} must fit 64 bits, not {number}")
    return number


def as_float(value: SupportsFloat | SupportsIndex, name: str) -> float:
    """Return a float; strings are refused."""
    if is_text(value) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        raise TypeError(f"{name} must be a number, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise TypeError(f"{name} must be a number within float64") from None


def as_sequence(value: Iterable[T], name: str) -> list[T]:
    """Return the elements of a sequence or other iterable; strings, mappings and sets are refused."""
    if is_text(value) or isinstance(value, Mapping | Set) or not isinstance(value, Iterable):
        error = TypeError(f"Invalid {name}")
        error.add_note(f"{name}: expected one for each dimension, in their order")
        raise error
    return list(value)


def as_integer(value: Any, otherwise: int | None = None) -> int | None:
    """Return an integer, also of NumPy; `otherwise` for anything else, a truth value included."""
    if isinstance(value, bool):
        return otherwise
    try:
        return operator.index(value)
    except TypeError:
        return otherwise


def as_items(value: object) -> list[Any] | None:
    """Return the items of a sequence or array; None for text, mappings, sets, scalars and the rest."""
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        return None
    return list(value) if getattr(value, "ndim", 1) else None


def check_choice(value: object, name: str, choices: Collection[object]) -> None:
    """Raise InvalidArgumentError unless `value` is one of `choices`."""
    if value not in choices:
        known = ", ".join(map(str, choices))
        raise InvalidArgumentError(f"{name}: expected one of {known}, not {value!r}")


def check_flag(value: object, name: str) -> None:
    """Raise InvalidArgumentError unless `value` is True or False, of NumPy or as a number too."""
    is_flag = isinstance(value, bool | int) or type(value).__name__ in ("bool", "bool_")
    if not is_flag or value not in (0, 1):
        raise InvalidArgumentError(f"{name}: expected True or False, not {value!r}")


def check_same_type(own: object, other: object) -> None:
    """Raise TypeError unless `other` is of the class of `own`, so that the two can be compared."""
    if not isinstance(other, type(own)):
        _cannot_compare(own, other)


def _cannot_compare(own: object, other: object) -> NoReturn:
    name = type(own).__name__
    raise TypeError(f"{name} can be compared with {name} only, not {type(other).__name__}")


@overload
def as_nbytes(size: int | str, name: str) -> int: ...
@overload
def as_nbytes(size: int | str | None, name: str) -> int | None: ...


def as_nbytes(size: int | str | None, name: str) -> int | None:
    """Return a size such as ``500MB``, ``1.5 GiB`` or ``1000000`` in bytes, or raise ValueError."""
    if size is None:
        return None
    found = re.fullmatch(_NBYTES, size.strip()) if isinstance(size, str) else None
    if found is not None:
        number, prefix, binary = found[1], found[2].upper(), found[3]
        n = int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix or " "))
    else:
        is_number = not isinstance(size, str | bool) and hasattr(size, "__index__")
        n = operator.index(size) if is_number else 0  # type: ignore[arg-type]
    if n < 1:
        raise InvalidArgumentError(f"{name}: expected a size such as 500MB or 2GiB, but received {size!r}")
    return n
