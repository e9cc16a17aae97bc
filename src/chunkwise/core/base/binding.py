"""Reading JSON members: each check says what was expected and what was received.

The wording is TensorStore's, since programs match on it: ``Error parsing object member "level": Expected
integer in the range [0, 9], but received: 12``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, SpecError, nearest, noted, prefix

__all__ = [
    "JSON",
    "MISSING",
    "MOST_GIVEN",
    "Members",
    "check_known",
    "dump",
    "dump_bytes",
    "expect_array",
    "expect_bool",
    "expect_int",
    "expect_number",
    "expect_object",
    "expect_one_of",
    "expect_string",
    "load_json",
    "not_too_deep",
    "parse_array",
    "parse_json",
    "plain_json",
]

JSON: TypeAlias = Any
P = ParamSpec("P")
T = TypeVar("T")


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"  # it is compared by identity, so unpickling must return the same object


MISSING: Any = _Missing()
_REQUIRED: Any = _Missing()

MOST_NESTED = 200
"""Levels of a document, which leaves room on Python's stack for whatever goes through them."""

MOST_GIVEN = 150
"""Levels of a value that is to be stored; documents have some around it."""

_TOO_DEEP = f"JSON is nested more deeply than {MOST_NESTED} levels"
_PLAIN = (str, int, float, bool, type(None))


def plain_json(value: Any, is_kept: Callable[[str, Any], bool] | None = None, *, member: str = "") -> JSON:
    """Return JSON given as Python objects as dict, list, str, int, float, bool and None only.

    Parameters
    ----------
    value : object
        Objects with a method ``to_json`` are replaced by what it returns; NumPy scalars and arrays, tuples,
        ranges and bytes by numbers and lists.  Keys become strings.  No container is shared with the result.
    is_kept : callable, optional
        Tells whether an object stays as it is, from the name of the innermost member around it and the
        object.
    member : str
        Name of the member that `value` is in.

    Raises
    ------
    TypeError
        If something has no such form.

    Examples
    --------
    >>> plain_json({"shape": np.array([3, 4]), "chunks": (2, np.int64(2))})
    {'shape': [3, 4], 'chunks': [2, 2]}
    """
    return _plain(value, is_kept, member, MOST_GIVEN)


def _plain(value: Any, is_kept: Callable[[str, Any], bool] | None, member: str, levels: int) -> JSON:
    """Return JSON of at most `levels` levels; a list that contains itself has more."""
    kind = type(value)
    if kind in _PLAIN or value is MISSING:
        return value
    if kind is not list and is_kept is not None and is_kept(member, value):
        return value
    levels -= 1
    if levels < 0:
        where = f"{dump(member)}: " if member else ""
        raise InvalidArgumentError(f"{where}JSON is nested more deeply than {MOST_GIVEN} levels")
    if kind is list:
        return [x if type(x) in _PLAIN else _plain(x, is_kept, member, levels) for x in value]
    if kind is dict or isinstance(value, Mapping):
        out = {
            str(key): item if type(item) in _PLAIN else _plain(item, is_kept, str(key), levels)
            for key, item in value.items()
        }
        if len(out) != len(value):
            raise InvalidArgumentError(f"two keys are the same text in {[*value]!r:.100}")
        return out
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), is_kept, member, levels)
    if isinstance(value, list | tuple | range | bytes):
        return [_plain(item, is_kept, member, levels) for item in value]
    if hasattr(value, "to_json") and not isinstance(value, type):
        return value.to_json()
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    raise TypeError(f"Object '{type(value).__name__}' does not support conversion to JSON")


def not_too_deep(function: Callable[P, T]) -> Callable[P, T]:
    """Return `function`, which recurses through JSON, raising an error of this library for deep nesting."""

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return function(*arguments, **keywords)
        except RecursionError:
            raise InvalidArgumentError(_TOO_DEEP) from None

    return call


_text = json.JSONEncoder(ensure_ascii=False).encode


def dump(value: JSON) -> str:
    """Return compact JSON text with sorted keys, the form used in messages and in stored documents."""
    return _text(value) if type(value) is str else _dumped(value, None, True, False)


def dump_bytes(value: JSON, *, indent: str | None = None, sort_keys: bool = True) -> bytes:
    """Return JSON text in UTF-8; with a lone surrogate, which UTF-8 can't encode, it is all in ASCII."""
    text = _dumped(value, indent, sort_keys, False)
    if _may_be_deep(text) and _is_deep(value):  # it could not be read again
        raise InvalidArgumentError(_TOO_DEEP)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _dumped(value, indent, sort_keys, True).encode()


def _dumped(value: JSON, indent: str | None, sort: bool, ascii: bool) -> str:
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        return json.dumps(value, indent=indent, separators=separators, sort_keys=sort, ensure_ascii=ascii)
    except RecursionError:
        raise InvalidArgumentError(_TOO_DEEP) from None


def parse_json(text: str | bytes | bytearray, **hooks: Any) -> JSON:
    """Return the value of JSON text, with the `hooks` of `json.loads`; raise ValueError for other text."""
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _may_be_deep(text) and _is_deep(value):
        raise ValueError(_TOO_DEEP)
    return value


def _may_be_deep(text: str | bytes | bytearray) -> bool:
    brackets: Any = ("{", "[") if isinstance(text, str) else (b"{", b"[")
    return sum(map(text.count, brackets)) > MOST_NESTED


def _is_deep(value: JSON) -> bool:
    level = [value]
    for _ in range(MOST_NESTED):
        below: list[Any] = []
        for one in level:
            below += [x for x in (one.values() if type(one) is dict else one) if type(x) in (dict, list)]
        if not below:
            return False
        level = below
    return True


def load_json(raw: bytes | bytearray | memoryview, where: str = "") -> JSON:
    """Return the JSON value of a stored document; raise FailedPreconditionError, which says `where`, if it
    isn't JSON."""
    try:
        return parse_json(bytes(raw))
    except ValueError as e:
        raise FailedPreconditionError(f"{where and f'{where}: '}Invalid JSON: {e}") from None


def _expected(what: str, value: JSON) -> SpecError:
    if value is MISSING:
        return SpecError(f"Expected {what}, but member is missing")
    try:
        received = dump(value)
    except (TypeError, ValueError):
        received = repr(value)
    return SpecError(f"Expected {what}, but received: {received}")


def expect_object(value: JSON) -> Mapping[str, JSON]:
    """Return `value` if it is a JSON object."""
    if not isinstance(value, Mapping):
        raise _expected("object", value)
    return value


def expect_array(value: JSON, length: int | None = None) -> list[JSON]:
    """Return `value` as a list if it is a JSON array, of `length` elements if that is given."""
    if not isinstance(value, list | tuple):
        raise _expected("array", value)
    if length is not None and len(value) != length:
        raise SpecError(f"Array has length {len(value)} but should have length {length}")
    return list(value)


def expect_string(value: JSON) -> str:
    """Return `value` if it is a JSON string."""
    if not isinstance(value, str):
        raise _expected("string", value)
    return value


def expect_bool(value: JSON) -> bool:
    """Return `value` if it is a JSON boolean."""
    if not isinstance(value, bool):
        raise _expected("boolean", value)
    return value


def expect_int(value: JSON, lo: int = -(2**63), hi: int = 2**63 - 1) -> int:
    """Return `value` as int if it is a whole JSON number in ``[lo, hi]``; ``6.0`` is a whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not lo <= value <= hi:
        full = (lo, hi) == (-(2**63), 2**63 - 1)
        raise _expected("64-bit signed integer" if full else f"integer in the range [{lo}, {hi}]", value)
    return value


def expect_number(value: JSON) -> float:
    """Return `value` as float if it is a JSON number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _expected("64-bit floating-point number", value)
    try:
        return float(value)
    except OverflowError:
        raise _expected("64-bit floating-point number", value) from None


def expect_one_of(value: JSON, choices: tuple[JSON, ...]) -> JSON:
    """Return `value` if it is one of `choices`."""
    if (value is None or isinstance(value, bool | int | float | str)) and any(
        value == c and isinstance(value, bool) == isinstance(c, bool) for c in choices
    ):
        return value
    raise _expected("one of " + ", ".join(dump(c) for c in choices), value)


def parse_array(value: JSON, element: Callable[[JSON], T], length: int | None = None) -> list[T]:
    """Return the elements of a JSON array, each read by `element`; an error names the position."""
    out = []
    for i, item in enumerate(expect_array(value, length)):
        try:
            out.append(element(item))
        except InvalidArgumentError as e:
            raise prefix(e, f"Error parsing value at position {i}") from None
    return out


def check_known(members: Iterable[str], known: Collection[str]) -> None:
    """Raise for members that are not in `known`."""
    extra = sorted(set(members) - set(known))
    if extra:
        error = SpecError("Object includes extra members: " + ",".join(map(dump, extra)))
        raise noted(error, nearest(extra[0], known))


class Members:
    """The members of one JSON object, taken one at a time; a member left over is an error.

    Examples
    --------
    >>> members = Members({"level": 3})
    >>> members.take("level", expect_int, 1)
    3
    >>> members.finish()
    """

    __slots__ = ("_asked", "_rest")

    def __init__(self, value: JSON) -> None:
        self._rest = dict(expect_object(value))
        self._asked: list[str] = []

    def take(
        self, name: str, parse: Callable[[JSON], T], default: Any = _REQUIRED, *, example: JSON = None
    ) -> T:
        """Remove member `name` and return it as read by `parse`, or `default` if it is missing.

        An `example` is added to the error about a missing member.
        """
        # Without a default a missing member is an error.
        self._asked.append(name)
        if name not in self._rest and default is not _REQUIRED:
            return default  # type: ignore[no-any-return]
        found = self._rest.pop(name, MISSING)
        try:
            return parse(found)
        except InvalidArgumentError as e:
            note = f"for example {dump({name: example})}" if found is MISSING and example is not None else ""
            raise noted(prefix(e, f'Error parsing object member "{name}"'), note) from None

    def rest(self) -> dict[str, JSON]:
        """Remove and return all members not taken yet."""
        rest, self._rest = self._rest, {}
        return rest

    def finish(self) -> None:
        """Raise if a member was not taken."""
        check_known(self._rest, self._asked)
