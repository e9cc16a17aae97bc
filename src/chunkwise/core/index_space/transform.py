"""Index transforms: from the indices of a view to those of the array behind it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chunkwise.core.base.arguments import check_same_type
from chunkwise.core.base.binding import JSON, Members, plain_json
from chunkwise.core.index_space.box import IndexMapping
from chunkwise.core.index_space.compose import check_array_values, compose, invert
from chunkwise.core.index_space.dim import Dim, quote
from chunkwise.core.index_space.domain import IndexDomain
from chunkwise.core.index_space.fast_indexing import fast_index
from chunkwise.core.index_space.indexing import IndexingMixin, index_mapping
from chunkwise.core.index_space.interval import format_bounds
from chunkwise.core.index_space.output_map import OutputIndexMap, OutputIndexMaps, format_array, single_map
from chunkwise.core.index_space.subscript import as_index_error
from chunkwise.core.index_space.transform_forms import bounds_from_arguments, checked_output
from chunkwise.errors import InvalidArgumentError, OutOfRangeError, prefix, prefixed

__all__ = ["IndexTransform"]


def _identity(rank: int) -> tuple[OutputIndexMap, ...]:
    return tuple([single_map(0, 1, d) for d in range(rank)])


class IndexTransform(IndexMapping, IndexingMixin):
    """A domain, the *input*, and for each *output* dimension a formula for the output index.

    Made from a domain, from the keywords of `IndexDomain` with ``input_`` in front, or from JSON.

    Parameters
    ----------
    input_rank : int, IndexDomain or sequence of Dim, optional
        Number of input dimensions, or the domain.
    output : sequence of OutputIndexMap, optional
        Output index maps; the identity if missing.
    input_inclusive_min, input_exclusive_max, input_inclusive_max, input_shape : sequence of int, optional
        Bounds of the domain.
    implicit_lower_bounds, implicit_upper_bounds : sequence of bool, optional
        True for bounds that can still change.
    input_labels : sequence of str or None, optional
        Labels of the domain.
    domain : IndexDomain or sequence of Dim, optional
        The domain, by keyword.
    json : object, optional
        JSON form, instead of all others.

    Raises
    ------
    InvalidArgumentError
        If the arguments don't specify a domain, or an output index map does not fit it.

    Examples
    --------
    >>> import chunkwise
    >>> transform = chunkwise.IndexTransform(input_shape=[4, 6])[1:3, ::2]
    >>> transform([2, 1])
    (2, 2)
    >>> transform.output[1].method, transform.output[1].stride
    (<OutputIndexMethod.single_input_dimension: 1>, 2)
    """

    __slots__ = ()

    _domain: IndexDomain

    def __init__(
        self,
        input_rank: int | IndexDomain | Sequence[Dim] | None = None,
        *args: Iterable[OutputIndexMap] | None,
        input_inclusive_min: Iterable[int] | None = None,
        implicit_lower_bounds: Iterable[bool] | None = None,
        input_exclusive_max: Iterable[int] | None = None,
        input_inclusive_max: Iterable[int] | None = None,
        input_shape: Iterable[int] | None = None,
        implicit_upper_bounds: Iterable[bool] | None = None,
        input_labels: Iterable[str | None] | None = None,
        output: Iterable[OutputIndexMap] | None = None,
        domain: IndexDomain | Sequence[Dim] | None = None,
        json: JSON = Ellipsis,
    ) -> None:
        arguments = (
            input_inclusive_min,
            implicit_lower_bounds,
            input_exclusive_max,
            input_inclusive_max,
            input_shape,
            implicit_upper_bounds,
            input_labels,
        )
        if isinstance(input_rank, IndexDomain | Sequence):
            if domain is not None:
                raise TypeError("IndexTransform: domain given twice")
            input_rank, domain = None, input_rank
        if domain is not None and not isinstance(domain, IndexDomain):
            domain = IndexDomain(dimensions=domain)
        if args:
            if domain is None or len(args) > 1 or output is not None:
                raise TypeError("IndexTransform: output is positional only after a domain, and given once")
            output = args[0]
        others = input_rank is not None or any(x is not None for x in arguments)
        if json is not Ellipsis:
            if others or domain is not None or output is not None:
                raise TypeError("IndexTransform: json can't be combined with other arguments")
            self._domain, self._output = _parse_json(json)
            return
        if domain is not None:
            if others:
                raise TypeError("IndexTransform: a domain can't be combined with other bounds")
        else:
            found = bounds_from_arguments("input_", input_rank, *arguments)
            if found is None:
                raise InvalidArgumentError("Must specify `input_rank`")
            domain = IndexDomain._from_bounds(*found)
        self._domain = domain
        self._output = _identity(domain.rank) if output is None else checked_output(domain, output)

    @classmethod
    def identity(cls, domain: IndexDomain) -> IndexTransform:
        """Return the transform of `domain` to itself.

        Parameters
        ----------
        domain : IndexDomain
            Its bounds and labels are those of the transform.
        """
        return cls._make(domain, _identity(domain.rank))

    @property
    def domain(self) -> IndexDomain:
        """Input domain."""
        return self._domain

    @property
    def input_rank(self) -> int:
        """Number of input dimensions."""
        return len(self._domain._lo)

    ndim = input_rank

    @property
    def output_rank(self) -> int:
        """Number of output dimensions."""
        return len(self._output)

    @property
    def input_inclusive_min(self) -> tuple[int, ...]:
        """Lower bounds of the domain."""
        return self._domain._lo

    input_origin = input_inclusive_min
    origin = input_inclusive_min

    @property
    def input_exclusive_max(self) -> tuple[int, ...]:
        """Upper bounds of the domain, exclusive."""
        return self._domain._hi

    @property
    def input_inclusive_max(self) -> tuple[int, ...]:
        """Upper bounds of the domain, inclusive."""
        return self._domain.inclusive_max

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the domain, in elements."""
        return self._domain.shape

    shape = input_shape

    @property
    def size(self) -> int:
        """Number of elements of the domain."""
        return self._domain.size

    @property
    def input_labels(self) -> tuple[str, ...]:
        """Labels of the domain."""
        return self._domain._labels

    @property
    def implicit_lower_bounds(self) -> tuple[bool, ...]:
        """Flags of the domain's lower bounds: True if implicit."""
        return self._domain._implicit_lo

    @property
    def implicit_upper_bounds(self) -> tuple[bool, ...]:
        """Flags of the domain's upper bounds: True if implicit."""
        return self._domain._implicit_hi

    @property
    def output(self) -> OutputIndexMaps:
        """Output index maps."""
        return OutputIndexMaps(self._output)

    def _apply_transform_fn(self, fn: Callable[[IndexTransform], IndexTransform]) -> IndexTransform:
        return fn(self)

    def __getitem__(self, key: Any) -> IndexTransform:
        """Index by a NumPy-style expression, a domain, a transform or a dimension expression.

        Raises
        ------
        OutOfBoundsError
            If the key does not fit the domain.
        """
        fast = fast_index(self._domain, self._output, key)
        if fast is not None:
            return IndexTransform._make(*fast)
        return index_mapping(self, key)

    def compose(self, inner: IndexTransform) -> IndexTransform:
        """Return the transform ``x -> self(inner(x))``, which is ``self[inner]``.

        Parameters
        ----------
        inner : IndexTransform
            Applied first; it has as many outputs as this transform has inputs.

        Raises
        ------
        IndexError
            If the ranks don't match, or `inner` leads out of the domain of this transform.
        """
        return as_index_error(compose, self, inner)

    def inverse(self) -> IndexTransform:
        """Return the inverse transform.

        Raises
        ------
        InvalidArgumentError
            If an output depends on an index array, on a stride other than 1 and -1 or on the same input as
            another output, or if an unused input does not have exactly one index.
        """
        return invert(self)

    def __call__(self, indices: Sequence[int]) -> tuple[int, ...]:
        """Return the output indices of one input position.

        Raises
        ------
        InvalidArgumentError
            If the number of indices is not the rank.
        OutOfRangeError
            If a position is outside explicit bounds, or an element of an index array is outside its range.
        """
        if isinstance(indices, str) or not isinstance(indices, Iterable):
            raise TypeError(f"expected a sequence of integers, not {indices!r}")
        point = [operator.index(x) for x in indices]
        domain = self._domain
        if len(point) != domain.rank:
            raise InvalidArgumentError(
                f"input indices vector of length {len(point)} cannot be used "
                f"with index transform with input rank {domain.rank}"
            )
        for d, (x, (lo, hi, implicit_lo, implicit_hi)) in enumerate(
            zip(point, domain._bounds(), strict=True)
        ):
            if (x < lo and not implicit_lo) or (x >= hi and not implicit_hi):
                raise OutOfRangeError(
                    f"Index {x} is not contained in the domain "
                    f"{format_bounds(lo, hi, implicit_lo, implicit_hi)} for input dimension {d}"
                )
        return tuple([self._evaluate(i, m, point) for i, m in enumerate(self._output)])

    def _evaluate(self, i: int, m: OutputIndexMap, point: list[int]) -> int:
        if m._dim is not None:
            return m._offset + m._stride * point[m._dim]
        if m._array is None:
            return m._offset
        position: list[Any] = [
            0 if n == 1 else x - lo for n, x, lo in zip(m._array.shape, point, self._domain._lo, strict=True)
        ]
        # The ellipsis makes it an array of rank 0.
        value = m._array[(*position, ...)]
        try:
            check_array_values(value, m._range)
        except OutOfRangeError as e:
            context = f"Computing index for output dimension {i}: "
            raise prefix(e, context + "Checking result of index array output index map") from None
        return m._offset + m._stride * int(value)

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import json_html  # only notebooks ask

        return json_html(self)

    def to_json(self) -> JSON:
        """Return the JSON form."""
        x = self._domain
        from chunkwise.core.index_space.transform_forms import bounds_to_json, output_to_json

        out = bounds_to_json(x._lo, x._hi, x._implicit_lo, x._implicit_hi, x._labels, "input_")
        output = output_to_json(self._output, x.rank)
        if output is not None:
            out["output"] = output
        return out

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, IndexTransform)
        return self._domain == other._domain and self._output == other._output

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexTransform._make, (self._domain, self._output)

    def __copy__(self) -> IndexTransform:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> IndexTransform:
        return self

    def __repr__(self) -> str:
        domain = self._domain
        lines = [
            f"Rank {domain.rank} -> {len(self._output)} index space transform:",
            "  Input domain:",
        ]
        for i, bounds in enumerate(domain._bounds()):
            label = f" {quote(domain._labels[i])}" if domain._labels[i] else ""
            lines.append(f"    {i}: {format_bounds(*bounds)}{label}")
        lines.append("  Output index maps:")
        lines += [f"    out[{i}] = {_format_map(m)}" for i, m in enumerate(self._output)]
        return "\n".join(lines) + "\n"


def _format_map(m: OutputIndexMap) -> str:
    if m._array is not None:
        bounds = format_bounds(*m._range)
        return (
            f"{m._offset} + {m._stride} * bounded({bounds}, array(in)), "
            f"where array =\n      {format_array(m._array)}"
        )
    return str(m._offset) if m._dim is None else f"{m._offset} + {m._stride} * in[{m._dim}]"


def _parse_json(value: JSON) -> tuple[IndexDomain, tuple[OutputIndexMap, ...]]:
    with prefixed("Error parsing index transform from JSON"):
        members = Members(plain_json(value))
        from chunkwise.core.index_space.transform_forms import parse_bounds, parse_output

        domain = IndexDomain._from_bounds(*parse_bounds(members, "input_"))
        output = members.take("output", parse_output, None)
        members.finish()
        return domain, _identity(domain.rank) if output is None else checked_output(domain, output)
