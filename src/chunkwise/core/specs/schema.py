"""``Schema``: all properties of an array except its location."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, not_too_deep, plain_json
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain, IndexingMixin, IndexTransform
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.fill_value import equal_fill, fill_from_json, view_fill_value
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.core.specs.schema_constraints import MEMBERS, SchemaConstraints, SchemaKeywords
from chunkwise.core.specs.unit import DimensionUnits, inverse_view_units, view_units
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = ["Schema"]


class Schema(SchemaConstraints, IndexingMixin):
    """Constraints on rank, data type, domain, chunk layout, codec, fill value and dimension units.

    Parameters
    ----------
    json : JSON, optional
        The JSON form, instead of keywords.
    rank : int, optional
    dtype : dtype_like, optional
    domain : IndexDomain, optional
    shape : iterable of int, optional
        A domain with this shape and origin 0.
    chunk_layout : ChunkLayout, optional
    codec : CodecSpec, optional
    fill_value : array_like, optional
        Broadcastable to the domain.
    dimension_units : iterable of Unit, str, number or None, optional
    schema : Schema, optional
        Another schema to merge.

    Raises
    ------
    ValueError
        If constraints contradict each other.
    TypeError
        For an argument of a wrong type, or JSON given together with keywords.

    Examples
    --------
    >>> import chunkwise
    >>> schema = chunkwise.Schema(dtype=chunkwise.uint16, shape=[100, 200], fill_value=7)
    >>> schema.rank, schema.dtype.name, schema.domain.shape
    (2, 'uint16', (100, 200))
    """

    __slots__ = ()

    @not_too_deep
    def __init__(self, json: JSON = MISSING, **keywords: Unpack[SchemaKeywords]) -> None:
        self._rank = self._dtype = self._domain = self._codec = self._fill = self._units = None
        self._layout = ChunkLayout()
        self._fill_is_json = False
        if json is MISSING:
            self._apply(keywords)
        elif keywords:
            raise TypeError("Schema takes either JSON or keywords, not both")
        else:
            self._parse(plain_json(json))

    # -- members ----------------------------------------------------------------------------------

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if unknown."""
        return self._rank

    ndim = rank

    @property
    def dtype(self) -> DataType | None:
        """Data type; None if unconstrained."""
        return self._dtype

    @property
    def domain(self) -> IndexDomain | None:
        """Domain; None if unconstrained."""
        return self._domain

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension; 2**63 - 1 if unknown."""
        return self._bounds().shape

    @property
    def origin(self) -> tuple[int, ...]:
        """Lower bound of each dimension."""
        return self._bounds().inclusive_min

    @property
    def size(self) -> int:
        """Number of elements; 2**63 - 1 if unbounded."""
        return self._bounds().size

    def _bounds(self) -> IndexDomain:
        if self._domain is not None:
            return self._domain
        if self._rank is None:
            raise InvalidArgumentError("Cannot determine the domain of a schema with unspecified rank")
        return IndexDomain(rank=self._rank)

    @property
    def chunk_layout(self) -> ChunkLayout:
        """A copy of the constraints on chunks."""
        return self._layout.copy()

    @property
    def codec(self) -> CodecSpec | None:
        """Constraint on the codec; None if there is none."""
        return self._codec

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """Fill value, broadcastable to the domain; None if unconstrained.

        If given as JSON before the data type was known, it is an array of objects.
        """
        return self._fill

    @property
    def dimension_units(self) -> DimensionUnits | None:
        """A unit or None for each dimension; None if the rank is unknown."""
        if self._units is None and self._rank is not None:
            return (None,) * self._rank
        return self._units

    # -- setting ------------------------------------------------------------------------------------

    def update(self, **keywords: Unpack[SchemaKeywords]) -> None:
        """Add constraints, given as the keywords of the constructor; on error nothing is changed.

        Parameters
        ----------
        **keywords
            Those of the constructor, such as ``dtype``, ``shape`` (in elements) and ``fill_value``.

        Raises
        ------
        ValueError
            If a constraint contradicts one that is there.
        """
        changed = self.copy()
        changed._apply(keywords)
        self._become(changed)

    def converted_fill_value(self, dtype: DataType) -> npt.NDArray[Any] | None:
        """Return the fill value as one of `dtype`; None if there is none.

        Parameters
        ----------
        dtype : DataType
            Data type of the result, which has shape ``()`` or one that broadcasts to the domain.

        Raises
        ------
        SpecError
            If it was given as JSON, or as an object, that is not a value of `dtype`.
        """
        if self._fill is None:
            return None
        objects = self._fill.dtype.hasobject and not dtype.memory_dtype.hasobject
        if self._fill_is_json or objects:
            return fill_from_json(self._fill.tolist(), dtype)
        return self._fill.astype(dtype.memory_dtype)

    def merged(self, other: Schema) -> Schema:
        """Return the schema that satisfies both.

        Parameters
        ----------
        other : Schema
            With the same rank, or without one.

        Raises
        ------
        ValueError
            If both can't be satisfied.
        """
        out = self.copy()
        out._merge(other)
        return out

    def is_met_by(self, dtype: DataType, rank: int) -> bool:
        """Return True if it requires at most this data type and rank.

        Parameters
        ----------
        dtype : DataType
            Data type of an array.
        rank : int
            Number of its dimensions.
        """
        return (
            (self._rank is None or self._rank == rank)
            and (self._dtype is None or self._dtype == dtype)
            and self._domain is None
            and self._codec is None
            and self._fill is None
            and self._units is None
            and self._layout.is_empty
        )

    def without_fill_value(self) -> Schema:
        """Return the schema of an array without a fill value."""
        out = self.copy()
        out._fill, out._fill_is_json = None, False
        return out

    def with_domain(self, domain: IndexDomain | None) -> Schema:
        """Return the schema with another domain of the same rank, or none, in place of its own.

        Parameters
        ----------
        domain : IndexDomain, optional
            Its rank is that of the schema; None for no domain.
        """
        out = self.copy()
        out._domain = domain
        return out

    def with_one(self, name: str) -> Schema:
        """Return the schema with its rank, data type, and one of its other members.

        Parameters
        ----------
        name : str
            Name of a member, such as ``codec``.
        """
        out = Schema(rank=self._rank, dtype=self._dtype)
        if name == "chunk_layout":
            out._layout = self._layout.copy()
        elif name == "codec":
            out._codec = self._codec
        elif name == "dimension_units":
            out._units = self._units
        elif name == "fill_value":
            out._fill, out._fill_is_json = self._fill, self._fill_is_json
        return out

    def _with_units(self, units: DimensionUnits) -> Schema:
        """Return the schema with other dimension units in place of its own."""
        out = self.copy()
        out._units = units
        return out

    def copy(self) -> Schema:
        """Return an independent copy."""
        out = Schema()
        out._become(self)
        out._layout = self._layout.copy()
        return out

    @property
    def T(self) -> Schema:  # noqa: N802
        """The schema with its dimensions in reverse order; unchanged if the rank isn't known."""
        return self.copy() if self._rank is None else self.transpose()

    def _apply_transform_fn(self, fn: Callable[[IndexTransform], IndexTransform]) -> Schema:
        if self._rank is None:
            raise InvalidArgumentError("Cannot perform indexing operations on Schema with unspecified rank")
        if self._domain is None:
            return self.transformed(
                fn(IndexTransform.identity(IndexDomain(rank=self._rank))), keep_domain=False
            )
        base = IndexTransform.identity(self._domain)
        # Explicit bounds stay explicit, even if they are marked implicit.
        return self.transformed(base.compose(fn(base)))

    def transformed(self, transform: IndexTransform, *, keep_domain: bool = True) -> Schema:
        """Return the schema of the view by `transform` of an array with this schema.

        Parameters
        ----------
        transform : IndexTransform
            From the view to the array.
        keep_domain : bool
            Whether the view gets the domain of the transform; False if this schema has none.
        """
        from chunkwise.core.specs.chunk_layout import one_to_one, view_layout

        out = Schema()
        out._rank = transform.input_rank
        out._dtype, out._codec, out._fill_is_json = self._dtype, self._codec, self._fill_is_json
        out._layout = view_layout(self._layout, transform)
        if keep_domain:
            out._domain = transform.domain
        if self._fill is not None:
            out._fill = view_fill_value(self._fill, transform, self._domain)
        if self._units is not None:
            out._units = view_units(self._units, one_to_one(transform))
        return out

    def inverse_transformed(self, transform: IndexTransform) -> Schema:
        """Return the schema of the array whose view by `transform` has this schema.

        Parameters
        ----------
        transform : IndexTransform
            From the view to the array.

        Raises
        ------
        InvalidArgumentError
            If the ranks don't agree.
        """
        if self._rank is not None and self._rank != transform.input_rank:
            raise InvalidArgumentError(
                f"Cannot inverse transform schema of rank {self._rank} by index transform of rank "
                f"{transform.input_rank} -> {transform.output_rank}"
            )
        from chunkwise.core.specs.chunk_layout import inverse_view_domain, inverse_view_layout, single_inputs

        out = Schema()
        out._rank = None if self._rank is None else transform.output_rank
        out._dtype, out._codec, out._fill_is_json = self._dtype, self._codec, self._fill_is_json
        out._layout = inverse_view_layout(self._layout, transform)
        if self._domain is not None:
            out._domain = inverse_view_domain(self._domain, transform)
        if self._fill is not None:
            out._fill = self._fill
            if self._fill.ndim:
                domain = transform.domain if self._domain is None else self._domain
                out._fill = view_fill_value(self._fill, transform.inverse(), domain)
        if self._units is not None:
            with prefixed("Error transforming dimension_units"):
                out._units = inverse_view_units(self._units, single_inputs(transform))
        return out

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import json_html  # only notebooks ask

        return json_html(self)

    def __repr__(self) -> str:
        return pretty_repr("Schema", self.to_json())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            raise TypeError(f"Schema can be compared with Schema only, not {type(other).__name__}")
        mine, theirs = self.to_json(), other.to_json()
        mine.pop("fill_value", None)
        theirs.pop("fill_value", None)
        if self._fill is None or other._fill is None:
            return mine == theirs and self._fill is other._fill
        same_type = self._fill.dtype == other._fill.dtype and self._fill_is_json == other._fill_is_json
        return mine == theirs and same_type and equal_fill(self._fill, other._fill)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, tuple(getattr(self, name) for name in MEMBERS)


def _unpickle(*state: Any) -> Schema:
    out = Schema()
    for name, value in zip(MEMBERS, state, strict=True):
        setattr(out, name, value)
    return out
