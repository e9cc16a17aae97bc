"""A box in index space: the domain of an array or of an index transform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

from chunkwise.core.base.arguments import as_text, check_same_type, is_text
from chunkwise.core.base.binding import JSON, Members, plain_json
from chunkwise.core.index_space import dim_operations as ops
from chunkwise.core.index_space.box import Box, IndexMapping
from chunkwise.core.index_space.compose import compose, restrict
from chunkwise.core.index_space.dim import (
    MAX_RANK,
    Bounds,
    Dim,
    check_unique,
    find_dimension,
    hull_bounds,
    intersect_bounds,
    merge_labels,
)
from chunkwise.core.index_space.dim_expression import AllDimensionsMixin, DimExpression, apply_expression
from chunkwise.core.index_space.interval import INF, UPPER, half_open
from chunkwise.core.index_space.subscript import (
    SelectionItem,
    as_index_error,
    as_value_error,
    check_distinct,
    parse_selection,
    resolve_selection,
)
from chunkwise.core.index_space.transform_forms import bounds_from_arguments
from chunkwise.errors import InvalidArgumentError, prefix, prefixed

__all__ = ["IndexDomain", "combine_domains", "merge_bounds", "merge_domains"]


class _Mapping(IndexMapping):
    """A bare domain, in the form that operations on index mappings take."""

    __slots__ = ()

    _domain: IndexDomain


class IndexDomain(Box, AllDimensionsMixin):
    """A product of intervals, each with an optional label and implicit or explicit bounds.

    Made from a rank, from parallel sequences (unspecified bounds are infinite and implicit), from a
    sequence of `Dim`, or from JSON.

    Parameters
    ----------
    rank : int or sequence of Dim, optional
        Number of dimensions, at most 32, or the dimensions themselves.
    inclusive_min : sequence of int, optional
        Lower bounds; 0 if only `shape` is given.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        True for bounds that can still change.
    exclusive_max, inclusive_max, shape : sequence of int, optional
        Upper bounds, in one of three forms.
    labels : sequence of str or None, optional
        Labels, unique but for the empty one.
    dimensions : sequence of Dim, optional
        The dimensions, by keyword.
    json : object, optional
        JSON form, instead of all others.

    Raises
    ------
    InvalidArgumentError
        If the arguments don't specify a domain.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.IndexDomain(shape=[4, 5], labels=["x", "y"], implicit_upper_bounds=[False, True])
    { "x": [0, 4), "y": [0, 5*) }
    """

    __slots__ = ()

    def __init__(
        self,
        rank: int | Sequence[Dim] | None = None,
        *,
        inclusive_min: Iterable[int] | None = None,
        implicit_lower_bounds: Iterable[bool] | None = None,
        exclusive_max: Iterable[int] | None = None,
        inclusive_max: Iterable[int] | None = None,
        shape: Iterable[int] | None = None,
        implicit_upper_bounds: Iterable[bool] | None = None,
        labels: Iterable[str | None] | None = None,
        dimensions: Sequence[Dim] | None = None,
        json: JSON = Ellipsis,
    ) -> None:
        arguments = (
            inclusive_min,
            implicit_lower_bounds,
            exclusive_max,
            inclusive_max,
            shape,
            implicit_upper_bounds,
            labels,
        )
        others = any(x is not None for x in arguments)
        if dimensions is not None:
            if rank is not None:
                raise TypeError("IndexDomain: dimensions can't be combined with other arguments")
            rank = dimensions
        if json is not Ellipsis:
            if others or rank is not None:
                raise TypeError("IndexDomain: json can't be combined with other arguments")
            parsed = _parse_json(json)
        elif isinstance(rank, Sequence | IndexDomain) and not is_text(rank):
            if others:
                raise TypeError("IndexDomain: a sequence of Dim can't be combined with other arguments")
            parsed = _from_dims(list(rank))
        else:
            found = bounds_from_arguments("", rank, *arguments)
            if found is None:
                raise InvalidArgumentError("Must specify `rank`")
            parsed = found
        self._fill(*parsed)

    @property
    def index_exp(self) -> tuple[slice, ...]:
        """The domain as slices for a NumPy array; raises InvalidArgumentError if a bound is negative."""
        out = []
        for lo, hi in zip(self._lo, self._hi, strict=True):
            if -INF < lo < 0 or hi < 0:
                raise InvalidArgumentError(
                    f"Cannot convert domain {self} with negative bounds to index expression"
                )
            out.append(slice(None if lo == -INF else lo, None if hi == UPPER else hi))
        return tuple(out)

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import panel, table  # only notebooks ask

        return panel("IndexDomain", table((f"dimension {n}", str(dim)) for n, dim in enumerate(self)))

    def to_json(self) -> JSON:
        """Return the JSON form."""
        from chunkwise.core.index_space.transform_forms import bounds_to_json

        return bounds_to_json(self._lo, self._hi, self._implicit_lo, self._implicit_hi, self._labels, "")

    def hull(self, other: IndexDomain) -> IndexDomain:
        """Return the smallest domain that holds both; rank and labels must not differ.

        Parameters
        ----------
        other : IndexDomain
            A domain of the same rank; a dimension has the same label in both, or one without.

        Raises
        ------
        ValueError
            If ranks or labels differ.
        """
        return combine_domains(self, other, "hull", hull_bounds)

    def intersect(self, other: IndexDomain) -> IndexDomain:
        """Return the common part; raises InvalidArgumentError if rank or labels differ.

        Parameters
        ----------
        other : IndexDomain
            A domain of the same rank; a dimension has the same label in both, or one without.

        Raises
        ------
        ValueError
            If ranks or labels differ.
        """
        return combine_domains(self, other, "intersect", intersect_bounds)

    @overload
    def __getitem__(self, key: int | str) -> Dim: ...
    @overload
    def __getitem__(self, key: Any) -> IndexDomain: ...
    def __getitem__(self, key: Any) -> Any:
        """Return a `Dim` for a number or label, otherwise a domain.

        A selection of dimensions gives the domain of those, a dimension expression or transform is
        applied, and a domain restricts.

        Raises
        ------
        OutOfBoundsError
            If the key does not fit; InvalidArgumentError for an invalid selection of dimensions.
        """
        if is_text(key) or hasattr(key, "__index__"):
            identifier = as_text(key, "label") if is_text(key) else key
            return self._dim(find_dimension(identifier, self._labels))
        mapping = _Mapping._make(self, ())
        if isinstance(key, IndexDomain):
            return as_index_error(restrict, mapping, key)._domain
        if isinstance(key, IndexMapping):
            return as_index_error(compose, mapping, key)._domain
        if isinstance(key, DimExpression) and key._operations:
            return as_index_error(apply_expression, mapping, key)._domain
        if key is None or key is Ellipsis:
            raise TypeError(f"a domain can't be indexed by {key!r}")
        return as_value_error(self._select, parse_selection(key))

    def _select(self, items: tuple[SelectionItem, ...]) -> IndexDomain:
        dims = resolve_selection(items, self._labels)
        check_distinct(dims, len(self._labels))
        return ops.select(_Mapping._make(self, ()), dims)._domain

    def _operate(self, run: Callable[..., Any], argument: Any) -> IndexDomain:
        mapping = _Mapping._make(self, ())
        result: IndexDomain = as_value_error(run, mapping, range(self.rank), argument)[0]._domain
        return result

    def transpose(self, axes: Any = None) -> IndexDomain:
        """Return the domain with its dimensions in the order of `axes`, numbers or labels, or reversed.

        Parameters
        ----------
        axes : int, str or sequence of these, optional
            Numbers or labels of the dimensions, each one once; by default all, in reverse.
        """
        mapping: _Mapping = as_value_error(ops.transpose_all, _Mapping._make(self, ()), axes)
        return mapping._domain

    def __len__(self) -> int:
        return len(self._lo)

    def __iter__(self) -> Iterator[Dim]:
        return map(self._dim, range(len(self._lo)))

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, IndexDomain)
        return (
            self._lo == other._lo
            and self._hi == other._hi
            and self._implicit_lo == other._implicit_lo
            and self._implicit_hi == other._implicit_hi
            and self._labels == other._labels
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexDomain._make, (self._lo, self._hi, self._implicit_lo, self._implicit_hi, self._labels)

    def __copy__(self) -> IndexDomain:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexDomain:
        return self


def _parse_json(value: JSON) -> tuple[list[Bounds], tuple[str, ...]]:
    with prefixed("Error parsing index domain from JSON"):
        members = Members(plain_json(value))
        from chunkwise.core.index_space.transform_forms import parse_bounds

        parsed = parse_bounds(members, "")
        members.finish()
    return parsed


def _from_dims(dims: list[Any]) -> tuple[list[Bounds], tuple[str, ...]]:
    for dim in dims:
        if not isinstance(dim, Dim):
            raise TypeError(f"IndexDomain: expected a sequence of Dim, found {dim!r}")
    if len(dims) > MAX_RANK:
        raise InvalidArgumentError(f"Invalid rank: {len(dims)}")
    labels = tuple([dim.label for dim in dims])
    check_unique(labels)
    return [dim._bounds() for dim in dims], labels


B = TypeVar("B", bound=Box)


def combine_domains(a: B, b: B, verb: str, combine: Callable[[Bounds, Bounds], Bounds]) -> B:
    """Return the domain of the dimensions of `a` and `b` combined one by one; raise ``Cannot <verb> ...``."""
    if not isinstance(b, type(a)):
        raise TypeError(f"{verb} takes an IndexDomain, not {b!r}")
    context = f"Cannot {verb} index domain {a} with index domain {b}"
    if a.rank != b.rank:
        raise InvalidArgumentError(f"{context}: Ranks do not match")
    bounds, labels = [], []
    for i, (x, y) in enumerate(zip(a._bounds(), b._bounds(), strict=True)):
        try:
            labels.append(merge_labels(a._labels[i], b._labels[i]))
            bounds.append(combine(x, y))
        except InvalidArgumentError as e:
            raise prefix(e, f"{context}: Mismatch in dimension {i}") from None
    check_unique(labels)
    return a._from_bounds(bounds, labels)


def merge_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds that two sources specify together, or raise."""
    # An implicit infinite end specifies nothing; others must be equal, and are implicit only if both are.
    lo, implicit_lo = _merge_end(a[0], a[2], b[0], b[2], -INF, "Lower")
    hi, implicit_hi = _merge_end(a[1], a[3], b[1], b[3], UPPER, "Upper")
    # Ends from different sources may be in the wrong order.
    half_open(lo, hi)
    return lo, hi, implicit_lo, implicit_hi


def _merge_end(
    a: int, implicit_a: bool, b: int, implicit_b: bool, infinity: int, side: str
) -> tuple[int, bool]:
    if a == infinity and implicit_a:
        return b, implicit_b
    if b == infinity and implicit_b:
        return a, implicit_a
    if a != b:
        raise InvalidArgumentError(f"{side} bounds do not match")
    return a, implicit_a and implicit_b


def merge_domains(a: B, b: B) -> B:
    """Return the domain that two sources specify together; raise if ranks, labels or bounds differ."""
    return combine_domains(a, b, "merge", merge_bounds)
