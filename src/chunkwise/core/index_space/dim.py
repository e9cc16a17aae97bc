"""One dimension of an index space: an interval with explicit or implicit ends, and a label."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, SupportsIndex

from chunkwise.core.base.arguments import as_flag, as_int64, as_text, check_same_type, is_text
from chunkwise.core.index_space.interval import (
    INF,
    MIN_FINITE,
    UPPER,
    closed,
    format_bounds,
    half_open,
    sized,
)
from chunkwise.errors import InvalidArgumentError, OutOfBoundsError

__all__ = [
    "MAX_RANK",
    "Bounds",
    "Dim",
    "check_index",
    "check_unique",
    "escape",
    "find_dimension",
    "hull_bounds",
    "intersect_bounds",
    "merge_labels",
    "quote",
]

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


Bounds = tuple[int, int, bool, bool]
"""Inclusive minimum, exclusive maximum, and whether each of them is implicit."""

_UNSET: Any = object()


def intersect_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the inner bounds; equal bounds give an implicit one only if both are implicit."""
    lo, implicit_lo = _pick(a[0], a[2], b[0], b[2], a[0] > b[0])
    hi, implicit_hi = _pick(a[1], a[3], b[1], b[3], a[1] < b[1])
    # The intersection of disjoint intervals is an empty one at the larger lower bound.
    return lo, max(lo, hi), implicit_lo, implicit_hi


def hull_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the outer bounds; an empty interval is ignored beside another."""
    if a[0] == a[1]:
        return b
    if b[0] == b[1]:
        return a
    lo, implicit_lo = _pick(a[0], a[2], b[0], b[2], a[0] < b[0])
    hi, implicit_hi = _pick(a[1], a[3], b[1], b[3], a[1] > b[1])
    return lo, hi, implicit_lo, implicit_hi


def _pick(a: int, implicit_a: bool, b: int, implicit_b: bool, first: bool) -> tuple[int, bool]:
    if a == b:
        return a, implicit_a and implicit_b
    return (a, implicit_a) if first else (b, implicit_b)


def _optional_int(name: str, value: Any) -> int | None:
    return None if value is None else as_int64(value, f"Dim: {name}")


def _check_dim(other: object) -> None:
    if not isinstance(other, Dim):
        raise TypeError(f"expected a Dim, not {other!r}")


class Dim:
    """A dimension of an index space.

    ``Dim(label=None)`` is unbounded, ``Dim(size, label=None, *, inclusive_min=0)`` starts at 0 by default,
    ``Dim(inclusive_min, exclusive_max)`` is a half-open interval and ``Dim(inclusive_min=a,
    inclusive_max=b)`` a closed one.  An end is implicit if it is not given, unless `implicit_lower` or
    `implicit_upper` says otherwise.

    Parameters
    ----------
    *arguments
        A label, a size and a label, or the two bounds.
    label : str, optional
        Label; None is the same as the empty one.
    size, inclusive_min, exclusive_max, inclusive_max : int, optional
        Bounds of the interval; None leaves an end open.
    implicit_lower, implicit_upper : bool, optional
        True if the bound can still change, such as that of a resizable array.

    Raises
    ------
    InvalidArgumentError
        If the bounds don't specify an interval.
    TypeError
        If the arguments don't go together.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.Dim(5, "x", implicit_upper=True)
    Dim(inclusive_min=0, exclusive_max=5, implicit_upper=True, label="x")
    """

    __slots__ = ("__weakref__", "_hi", "_implicit_hi", "_implicit_lo", "_label", "_lo")

    _lo: int
    _hi: int
    _label: str
    _implicit_lo: bool
    _implicit_hi: bool

    def __init__(
        self,
        *arguments: Any,
        label: str | None = None,
        size: Any = _UNSET,
        inclusive_min: Any = _UNSET,
        exclusive_max: Any = _UNSET,
        inclusive_max: Any = _UNSET,
        implicit_lower: bool | None = None,
        implicit_upper: bool | None = None,
    ) -> None:
        args: Sequence[Any] = arguments
        if len(args) > 2:
            raise TypeError(f"Dim takes at most 2 positional arguments, not {len(args)}")
        if len(args) == 2 and (args[1] is None or is_text(args[1])):
            if label is not None:
                raise TypeError("Dim: label given twice")
            args, label = args[:1], args[1]
            if args == (None,) and not label:
                # With a label as well, even an empty one, a None is the size and not the label.
                args, size = (), None
        if len(args) == 2:
            if inclusive_min is not _UNSET or exclusive_max is not _UNSET:
                raise TypeError("Dim: bounds given twice")
            inclusive_min, exclusive_max = args[0], args[1]
        elif args and is_text(args[0]):
            if label is not None or not (size is inclusive_min is exclusive_max is inclusive_max is _UNSET):
                raise TypeError("Dim: a label alone as positional argument takes no bounds")
            label = args[0]
        elif args and not (args[0] is None and inclusive_min is _UNSET and label is None):
            if size is not _UNSET:
                raise TypeError("Dim: size given twice")
            # A lone number is a size, unless an upper bound makes it the lower one.
            if exclusive_max is _UNSET and inclusive_max is _UNSET:
                size = args[0]
            elif inclusive_min is _UNSET:
                inclusive_min = args[0]
            else:
                raise TypeError("Dim: inclusive_min given twice")
        if sum(x is not _UNSET for x in (size, exclusive_max, inclusive_max)) > 1:
            raise TypeError("Dim: only one of size, exclusive_max and inclusive_max can be given")
        lower = None if inclusive_min is _UNSET else _optional_int("inclusive_min", inclusive_min)
        default_lower, default_upper = lower is None, True
        if size is not _UNSET:
            n = _optional_int("size", size)
            origin = 0 if lower is None else lower
            bounds = half_open(origin, UPPER) if n is None else sized(origin, n)
            default_lower, default_upper = False, n is None
        elif inclusive_max is not _UNSET:
            last = _optional_int("inclusive_max", inclusive_max)
            bounds = closed(-INF if lower is None else lower, INF if last is None else last)
            default_upper = last is None
        else:
            stop = None if exclusive_max is _UNSET else _optional_int("exclusive_max", exclusive_max)
            bounds = half_open(-INF if lower is None else lower, UPPER if stop is None else stop)
            default_upper = stop is None
        self._lo, self._hi = bounds
        self._label = "" if label is None else as_text(label, "Dim: label")
        self._implicit_lo, self._implicit_hi = default_lower, default_upper
        if implicit_lower is not None:
            self.implicit_lower = implicit_lower
        if implicit_upper is not None:
            self.implicit_upper = implicit_upper

    @classmethod
    def _make(cls, bounds: Bounds, label: str = "") -> Dim:
        """Return a Dim from bounds that are known to be valid."""
        self = cls.__new__(cls)
        self._lo, self._hi, self._implicit_lo, self._implicit_hi = bounds
        self._label = label
        return self

    def _bounds(self) -> Bounds:
        return self._lo, self._hi, self._implicit_lo, self._implicit_hi

    @property
    def inclusive_min(self) -> int:
        """First index, or ``-inf``."""
        return self._lo

    @property
    def exclusive_min(self) -> int:
        """Index before the first one."""
        return self._lo - 1

    @property
    def inclusive_max(self) -> int:
        """Last index, or ``+inf``."""
        return self._hi - 1

    @property
    def exclusive_max(self) -> int:
        """Index after the last one, or ``inf + 1``."""
        return self._hi

    @property
    def size(self) -> int:
        """Number of indices; ``2**63 - 1`` for the unbounded dimension."""
        return self._hi - self._lo

    @property
    def empty(self) -> bool:
        """True if the size is 0."""
        return self._hi == self._lo

    @property
    def finite(self) -> bool:
        """True if both bounds are finite."""
        return self._lo != -INF and self._hi != UPPER

    @property
    def label(self) -> str:
        """Label, empty for none; can be set."""
        return self._label

    @label.setter
    def label(self, value: str) -> None:
        self._label = as_text(value, "Dim: label")

    @property
    def implicit_lower(self) -> bool:
        """True if the lower bound can still change; can be set."""
        return self._implicit_lo

    @implicit_lower.setter
    def implicit_lower(self, value: bool) -> None:
        self._implicit_lo = as_flag(value, "Dim: implicit_lower")

    @property
    def implicit_upper(self) -> bool:
        """True if the upper bound can still change; can be set."""
        return self._implicit_hi

    @implicit_upper.setter
    def implicit_upper(self, value: bool) -> None:
        self._implicit_hi = as_flag(value, "Dim: implicit_upper")

    def hull(self, other: Dim) -> Dim:
        """Return the smallest dimension that holds both; raises InvalidArgumentError if labels differ.

        Parameters
        ----------
        other : Dim
            With the same label, or one without.

        Raises
        ------
        ValueError
            If the labels differ.
        """
        _check_dim(other)
        label = merge_labels(self._label, other._label)
        return Dim._make(hull_bounds(self._bounds(), other._bounds()), label)

    def intersect(self, other: Dim) -> Dim:
        """Return the common part; raises InvalidArgumentError if labels differ.

        Parameters
        ----------
        other : Dim
            With the same label, or one without.

        Raises
        ------
        ValueError
            If the labels differ.
        """
        _check_dim(other)
        label = merge_labels(self._label, other._label)
        return Dim._make(intersect_bounds(self._bounds(), other._bounds()), label)

    def __len__(self) -> int:
        return self._hi - self._lo

    def __bool__(self) -> bool:
        return self._hi != self._lo

    def __iter__(self) -> Iterator[int]:
        if not self.finite:
            raise InvalidArgumentError("Cannot iterate over infinite interval")
        return iter(range(self._lo, self._hi))

    def __contains__(self, other: SupportsIndex | Dim) -> bool:
        if isinstance(other, Dim):
            return other.empty or (self._lo <= other._lo and other._hi <= self._hi)
        # An infinity is not an index, and lies in no interval.
        return max(self._lo, MIN_FINITE) <= as_int64(other, "index") < min(self._hi, INF)

    def __copy__(self) -> Dim:
        return Dim._make(self._bounds(), self._label)

    def __deepcopy__(self, memo: dict[int, Any]) -> Dim:
        return Dim._make(self._bounds(), self._label)

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, Dim)
        return self._bounds() == other._bounds() and self.label == other.label

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim._make, (self._bounds(), self.label)

    def __str__(self) -> str:
        text = format_bounds(*self._bounds())
        return f"{quote(self.label)}: {text}" if self.label else text

    def __repr__(self) -> str:
        parts = []
        if self._lo != -INF:
            parts.append(f"inclusive_min={self._lo}")
        if self.implicit_lower != (self._lo == -INF):
            parts.append(f"implicit_lower={self.implicit_lower}")
        if self._hi != UPPER:
            parts.append(f"exclusive_max={self._hi}")
        if self.implicit_upper != (self._hi == UPPER):
            parts.append(f"implicit_upper={self.implicit_upper}")
        if self.label:
            parts.append(f"label={quote(self.label)}")
        return f"Dim({', '.join(parts)})"
