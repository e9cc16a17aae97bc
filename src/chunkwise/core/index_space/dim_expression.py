"""Dimension expressions: ``d["x", 0].translate_by[5].label["u", "v"]``, applied by indexing with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from chunkwise.core.base.arguments import check_same_type
from chunkwise.core.index_space import dim_operations as ops
from chunkwise.core.index_space.box import M
from chunkwise.core.index_space.dim import check_index, escape, find_dimension
from chunkwise.core.index_space.numpy_indexing import Mode, apply_terms, check_shapes, n_dims
from chunkwise.core.index_space.numpy_terms import ArrayTerm, SliceTerm, Terms, parse_terms
from chunkwise.core.index_space.subscript import (
    SelectionItem,
    Subscript,
    check_distinct,
    format_selection,
    parse_selection,
    resolve_new,
    resolve_selection,
)
from chunkwise.errors import OutOfBoundsError

__all__ = ["OPERATIONS", "AllDimensionsMixin", "DimExpression", "DimSelection", "apply_expression", "d"]


class Operation(NamedTuple):
    """One step of an expression: its name, parsed argument and text."""

    name: str
    argument: Any
    text: str


class DimExpression:
    """A selection of dimensions and operations on them, in order.

    Each operation applies to what the selected dimensions have become.  Obtained from ``d[...]``.

    Examples
    --------
    >>> import chunkwise
    >>> domain = chunkwise.IndexDomain(labels=["y", "x"], shape=[4, 6])
    >>> domain[chunkwise.d["x"].translate_by[10]]
    { "y": [0, 4), "x": [10, 16) }
    """

    __slots__ = ("__weakref__", "_operations", "_selection")

    _selection: tuple[SelectionItem, ...]
    _operations: tuple[Operation, ...]

    def __init__(self, *args: Any) -> None:
        raise TypeError("dimension expressions are made by indexing `d`")

    @staticmethod
    def _make(selection: tuple[SelectionItem, ...], operations: tuple[Operation, ...]) -> DimExpression:
        cls = DimExpression if operations else DimSelection
        self = cls.__new__(cls)
        self._selection = selection
        self._operations = operations
        return self

    def _then(self, operation: Operation) -> DimExpression:
        return DimExpression._make(self._selection, (*self._operations, operation))

    def _index(self, mode: Mode, key: Any) -> DimExpression:
        expression = parse_terms(key)
        _check_terms(expression, mode, first=not self._operations)
        text = f"{expression}" if mode == "default" else f".{mode}{expression}"
        return self._then(Operation(mode, expression, text))

    def _operation(self, name: str) -> Subscript[DimExpression]:
        def apply(key: Any) -> DimExpression:
            argument, text = OPERATIONS[name][0](key)
            return self._then(Operation(name, argument, f".{name}[{text}]"))

        return Subscript(self, name, apply)

    def __getitem__(self, key: Any) -> DimExpression:
        return self._index("default", key)

    __iter__: ClassVar[None] = None

    @property
    def oindex(self) -> Subscript[DimExpression]:
        """Outer indexing of the selected dimensions: each index array stands alone."""
        return Subscript(self, "oindex", partial(self._index, "oindex"))

    @property
    def vindex(self) -> Subscript[DimExpression]:
        """Vectorized indexing of the selected dimensions: dimensions of index arrays come first."""
        return Subscript(self, "vindex", partial(self._index, "vindex"))

    @property
    def label(self) -> Subscript[DimExpression]:
        """Set the labels: ``label["x", "y"]``."""
        return self._operation("label")

    @property
    def translate_by(self) -> Subscript[DimExpression]:
        """Shift the domain up: ``translate_by[5]`` or one number for each dimension."""
        return self._operation("translate_by")

    @property
    def translate_backward_by(self) -> Subscript[DimExpression]:
        """Shift the domain down."""
        return self._operation("translate_backward_by")

    @property
    def translate_to(self) -> Subscript[DimExpression]:
        """Shift the domain to a new origin."""
        return self._operation("translate_to")

    @property
    def stride(self) -> Subscript[DimExpression]:
        """Let index ``x`` stand for ``stride * x``."""
        return self._operation("stride")

    @property
    def transpose(self) -> Subscript[DimExpression]:
        """Move the dimensions to other positions."""
        return self._operation("transpose")

    @property
    def mark_bounds_implicit(self) -> Subscript[DimExpression]:
        """Make bounds implicit or explicit: a boolean for both, or a slice of booleans."""
        return self._operation("mark_bounds_implicit")

    @property
    def diagonal(self) -> DimExpression:
        """Replace the dimensions by their diagonal, which comes first."""
        return self._then(Operation("diagonal", None, ".diagonal"))

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        return repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return DimExpression._make, (self._selection, self._operations)

    def __repr__(self) -> str:
        selection = format_selection(self._selection) if self._selection else "()"
        return f"d[{selection}]" + "".join(op.text for op in self._operations)


class DimSelection(DimExpression):
    """A dimension expression without operations yet.

    Examples
    --------
    >>> import chunkwise
    >>> domain = chunkwise.IndexDomain(labels=["y", "x"], shape=[4, 6])
    >>> domain[chunkwise.d["x"].translate_by[10]]
    { "y": [0, 4), "x": [10, 16) }
    """

    __slots__ = ()


class _Selector:
    """The type of `d`."""

    __slots__ = ("__weakref__",)

    def __getitem__(self, key: Any) -> DimSelection:
        selection = DimExpression._make(parse_selection(key), ())
        assert isinstance(selection, DimSelection)
        return selection

    __iter__ = None

    def __repr__(self) -> str:
        return "d"

    def __reduce__(self) -> str:
        return "d"


d = _Selector()
"""Starts a dimension expression: ``d[0, "x"]`` selects dimensions by number and label."""


def _amounts(key: Any) -> tuple[Any, str]:
    amounts = ops.parse_amounts(key)
    return amounts, _joined(map(str, amounts)) if isinstance(amounts, tuple) else str(amounts)


def _joined(items: Iterable[str]) -> str:
    """Return the items joined by commas; a single item is followed by a comma, as in Python."""
    texts = list(items)
    return ",".join(texts) + "," * (len(texts) == 1)


def _labels(key: Any) -> tuple[Any, str]:
    labels = ops.parse_labels(key)
    return labels, ",".join(f"'{escape(x)}'" for x in labels)


def _target(key: Any) -> tuple[Any, str]:
    items = parse_selection(key)
    # A lone integer is the position of the whole group.
    lone = len(items) == 1 and isinstance(items[0], int)
    return items[0] if lone else items, format_selection(items) if items else "()"


def _flags(key: Any) -> tuple[Any, str]:
    lower, upper = flags = ops.parse_flags(key)
    if lower == upper and lower is not None:
        return flags, str(lower)
    return flags, f"{'' if lower is None else lower}:{'' if upper is None else upper}"


OPERATIONS: dict[str, tuple[Callable[[Any], tuple[Any, str]], Callable[..., Any]]] = {
    "label": (_labels, ops.label),
    "translate_by": (_amounts, ops.translate_by),
    "translate_backward_by": (_amounts, ops.translate_backward_by),
    "translate_to": (_amounts, ops.translate_to),
    "stride": (_amounts, ops.stride),
    "transpose": (_target, ops.transpose),
    "mark_bounds_implicit": (_flags, ops.mark_implicit),
}


def apply_expression(m: M, expression: DimExpression) -> M:
    """Return `m` with the operations of the expression applied to its dimensions."""
    if not expression._operations:
        raise OutOfBoundsError("Must specify at least one operation in dimension expression")
    dims: list[int] | None = None
    for op in expression._operations:
        if isinstance(op.argument, Terms):
            m, dims = _index(m, expression._selection, dims, op.argument, op.name)  # type: ignore[arg-type]
            continue
        if dims is None:
            dims = resolve_selection(expression._selection, m._domain._labels)
            check_distinct(dims, m._domain.rank)
        if op.name == "diagonal":
            m, dims = ops.diagonal(m, dims)
        else:
            m, dims = OPERATIONS[op.name][1](m, dims, op.argument)
    return m


def _check_terms(expression: Terms, mode: Mode, *, first: bool) -> None:
    """Raise for terms that are invalid whatever they are applied to."""
    check_shapes(expression, mode)
    if any(t is None for t in expression.terms) and not first:
        raise OutOfBoundsError("tensorstore.newaxis (`None`) not valid in chained indexing operations")
    if mode == "oindex" and any(isinstance(t, ArrayTerm) and not t.arrays for t in expression.terms):
        raise OutOfBoundsError(
            "Zero-rank bool array incompatible with outer indexing of a dimension selection"
        )


def _check_once(dims: Sequence[int]) -> None:
    for i, x in enumerate(dims):
        if x in dims[:i]:
            raise OutOfBoundsError(f"Dimension {x} specified more than once")


def _index(
    m: M, selection: Sequence[SelectionItem], dims: list[int] | None, expression: Terms, mode: Mode
) -> tuple[M, list[int]]:
    rank = m._domain.rank
    has_new = None in [None if t is None else 0 for t in expression.terms]
    if has_new and expression.scalar:
        dims = resolve_new(selection)
    elif has_new:
        return _index_with_new(m, selection, expression, mode)
    elif dims is None:
        dims = resolve_selection(selection, m._domain._labels)
        _check_once(dims)
    terms = _spread(expression, len(dims))
    n_new = sum(t is None for t in terms)
    dims = [check_index(x, rank + n_new) for x in dims]
    _check_once(dims)
    return _apply(m, terms, dims, mode)


def _index_with_new(
    m: M, selection: Sequence[SelectionItem], expression: Terms, mode: Mode
) -> tuple[M, list[int]]:
    """Apply terms with new axes; numbers in the selection are positions in the result with those axes."""
    labels = m._domain._labels
    n_new = sum(t is None for t in expression.terms)
    rank = len(labels) + n_new
    flat: list[int | str] = []
    for item in selection:
        if isinstance(item, slice):
            flat += resolve_selection([item], [""] * rank)
        else:
            flat.append(item)
    terms = _spread(expression, len(flat))
    position = 0
    is_new: set[int] = set()
    for term in terms:
        if term is None:
            item = flat[position]
            if isinstance(item, str):
                find_dimension(item, labels)  # raises for an unknown label
                raise OutOfBoundsError("Dimensions specified by label cannot be used with newaxis")
            is_new.add(check_index(item, rank))
        position += 1 if term is None else n_dims(term)
    old = [x for x in range(rank) if x not in is_new]
    dims = [old[find_dimension(x, labels)] if isinstance(x, str) else check_index(x, rank) for x in flat]
    _check_once(dims)
    return _apply(m, terms, dims, mode)


def _spread(expression: Terms, n: int) -> list[Any]:
    """Return terms for exactly `n` dimensions: a lone one is repeated, an ellipsis replaced."""
    terms = list(expression.terms)
    if expression.scalar:
        return terms * n
    needed = sum(1 if t is None else n_dims(t) for t in terms)
    at = next((i for i, t in enumerate(terms) if t is Ellipsis), None)
    if needed > n or (at is None and needed != n):
        raise OutOfBoundsError(
            f"Indexing expression requires {needed} dimensions but selection has {n} dimensions"
        )
    if at is not None:
        terms[at : at + 1] = [SliceTerm(None, None, None)] * (n - needed)
    return terms


def _apply(m: M, terms: Sequence[Any], dims: Sequence[int], mode: Mode) -> tuple[M, list[int]]:
    placed = []
    position = 0
    new = set()
    for term in terms:
        n = 1 if term is None else n_dims(term)
        own = tuple(dims[position : position + n])
        position += n
        if term is None:
            new.add(own[0])
        placed.append((term, own or (0,)))
    if mode == "default" and any(isinstance(t, ArrayTerm) and not t.arrays for t in terms):
        # A boolean scalar has no dimension that the joint ones could replace, so they come in front.
        mode = "vindex"
    is_new = [x in new for x in range(m._domain.rank + len(new))]
    return apply_terms(m, placed, is_new, mode)


class AllDimensionsMixin:
    """Operations in brackets on all dimensions, and transposing, for classes that have `_operate`."""

    __slots__ = ()

    @abstractmethod
    def _operate(self, run: Callable[..., Any], argument: Any) -> Self:
        """Return the same kind of object: what `run` makes of its mapping, all dimensions and `argument`."""

    @abstractmethod
    def transpose(self, axes: Any = None) -> Self:
        """Return the same with its dimensions in the order of `axes`, or reversed."""

    def _operation(self, name: str) -> Subscript[Self]:
        parse, run = OPERATIONS[name]
        return Subscript(self, name, lambda key: self._operate(run, parse(key)[0]))

    @property
    def label(self) -> Subscript[Self]:
        """The same with new dimension labels: ``label["x", "y"]``."""
        return self._operation("label")

    @property
    def translate_by(self) -> Subscript[Self]:
        """The same with its domain shifted up: ``translate_by[5]``, or a number or None per dimension."""
        return self._operation("translate_by")

    @property
    def translate_backward_by(self) -> Subscript[Self]:
        """The same with its domain shifted down."""
        return self._operation("translate_backward_by")

    @property
    def translate_to(self) -> Subscript[Self]:
        """The same with its domain shifted to a new origin."""
        return self._operation("translate_to")

    @property
    def mark_bounds_implicit(self) -> Subscript[Self]:
        """The same with bounds made implicit or explicit: a boolean for both ends, or a slice of booleans."""
        return self._operation("mark_bounds_implicit")

    @property
    def T(self) -> Self:  # noqa: N802
        """The same with its dimensions in reverse order."""
        return self.transpose()
