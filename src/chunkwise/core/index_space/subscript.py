"""Expressions in brackets: methods such as ``transform.translate_by[5]``, and dimensions in ``d[...]``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

from chunkwise.core.base.arguments import as_text, is_text
from chunkwise.core.index_space.dim import MAX_RANK, check_index, escape, find_dimension
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfBoundsError, OutOfRangeError

__all__ = [
    "SelectionItem",
    "Subscript",
    "WritableSubscript",
    "as_index_error",
    "as_value_error",
    "check_distinct",
    "format_selection",
    "parse_selection",
    "resolve_new",
    "resolve_selection",
    "resolve_slice",
]

P = ParamSpec("P")
R = TypeVar("R")


def as_index_error(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function`; an error about its arguments becomes an OutOfBoundsError with the same text."""
    try:
        return function(*args, **kwargs)
    except (InvalidArgumentError, OutOfRangeError) as e:
        raise OutOfBoundsError(str(e)) from None


def as_value_error(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function`; an OutOfBoundsError becomes an InvalidArgumentError with the same text."""
    try:
        return function(*args, **kwargs)
    except OutOfBoundsError as e:
        error: ChunkwiseError = InvalidArgumentError(str(e))
        raise error from None


class Subscript(Generic[R]):
    """A method that is called with an expression in brackets; `owner` and `name` are for its repr."""

    __slots__ = ("_apply", "_name", "_owner")

    def __init__(self, owner: object, name: str, apply: Callable[[Any], R]) -> None:
        self._owner = owner
        self._name = name
        self._apply = apply

    def __getitem__(self, key: Any) -> R:
        return self._apply(key)

    # Without this, iteration would call __getitem__ with 0, 1, 2, ...
    __iter__ = None

    def __repr__(self) -> str:
        return f"{self._owner!r}.{self._name}"


class WritableSubscript(Subscript[R]):
    """A subscript that can be assigned to as well."""

    __slots__ = ("_assign",)

    def __init__(
        self, owner: object, name: str, apply: Callable[[Any], R], assign: Callable[[Any, Any], None]
    ) -> None:
        super().__init__(owner, name, apply)
        self._assign = assign

    def __setitem__(self, key: Any, value: Any) -> None:
        self._assign(key, value)


SelectionItem: TypeAlias = int | str | slice


def parse_selection(key: Any) -> tuple[SelectionItem, ...]:
    """Return the items of a selection: a number, label, slice, other selection, or a sequence of those."""
    items = _parse(key)
    if items is None:
        raise TypeError(
            f"dimensions are selected by integers, labels, slices of integers or sequences, not {key!r}"
        )
    return tuple(items)


def _parse(key: Any) -> list[SelectionItem] | None:
    if is_text(key):
        return [as_text(key, "label")]
    if isinstance(key, slice):
        try:
            ends = [None if x is None else operator.index(x) for x in (key.start, key.stop, key.step)]
        except TypeError:
            return None
        return None if ends[2] == 0 else [slice(*ends)]
    nested = getattr(key, "_selection", None)
    if nested is not None:
        return list(nested) if not getattr(key, "_operations", ()) else None
    try:
        return [operator.index(key)]
    except TypeError:
        pass
    if not isinstance(key, list | tuple):
        if not isinstance(key, Iterable):
            return None
        key = list(key)
    out: list[SelectionItem] = []
    for item in key:
        items = _parse(item)
        if items is None:
            return None
        out += items
    return out


def _format_slice(item: slice) -> str:
    text = f"{'' if item.start is None else item.start}:{'' if item.stop is None else item.stop}"
    return text if item.step in (None, 1) else f"{text}:{item.step}"


def format_selection(items: Sequence[SelectionItem]) -> str:
    """Return the text of a selection between the brackets."""
    return ",".join(
        f"'{escape(item)}'"
        if isinstance(item, str)
        else _format_slice(item)
        if isinstance(item, slice)
        else str(item)
        for item in items
    )


def resolve_slice(item: slice, rank: int) -> range:
    """Return the dimension numbers of a slice; unlike in Python, it must not reach beyond the rank."""
    step = 1 if item.step is None else item.step
    first, last = (0, rank) if step > 0 else (rank - 1, -1)
    start = first
    if item.start is not None:
        start = check_index(item.start, rank)
    stop = last
    if item.stop is not None:
        if not -rank - 1 <= item.stop <= rank:
            raise OutOfBoundsError(
                f"Dimension exclusive stop index {item.stop} is outside valid range [{-rank - 1}, {rank}]"
            )
        stop = item.stop if item.stop >= 0 else item.stop + rank
    if (stop - start) * step < 0:
        raise OutOfBoundsError(f"{_format_slice(item)} is not a valid range")
    return range(start, stop, step)


def resolve_selection(items: Sequence[SelectionItem], labels: Sequence[str]) -> list[int]:
    """Return the dimension numbers of a selection from dimensions with `labels`; they can repeat."""
    out: list[int] = []
    for item in items:
        if isinstance(item, slice):
            out += resolve_slice(item, len(labels))
        else:
            out.append(find_dimension(item, labels))
    return out


def resolve_new(items: Sequence[SelectionItem]) -> list[int]:
    """Return the numbers of a selection while the rank is not known yet; negative ones are kept."""
    out: list[int] = []
    for item in items:
        if isinstance(item, str):
            raise OutOfBoundsError("New dimensions cannot be specified by label")
        if isinstance(item, int):
            out.append(item)
            continue
        step = 1 if item.step is None else item.step
        start = (0 if step > 0 else -1) if item.start is None else item.start
        # Without an end, the slice must lead to that of the new dimensions.
        stop = (0 if step > 0 else -1) if item.stop is None else item.stop
        is_counted = (start < 0) == (step > 0 if item.stop is None else stop < 0)
        if not is_counted or (stop - start) * step < 0:
            raise OutOfBoundsError(f"`{_format_slice(item)}` is not a valid specification for new dimensions")
        new = range(start, stop, step)
        if len(new) > MAX_RANK:  # before there is a list of them
            raise OutOfBoundsError(
                f"Number of new dimensions ({len(new)}) exceeds maximum rank of {MAX_RANK}"
            )
        out += new
    return out


def check_distinct(dims: Sequence[int], rank: int) -> None:
    """Raise InvalidArgumentError if one of `rank` dimensions is selected more than once."""
    if len(dims) > rank:
        raise InvalidArgumentError(f"Number of dimensions ({len(dims)}) exceeds input rank ({rank}).")
    if len(set(dims)) != len(dims):
        again = sorted({d for i, d in enumerate(dims) if d in dims[:i]})
        raise InvalidArgumentError(
            f"Input dimensions {{{', '.join(map(str, again))}}} specified more than once"
        )
