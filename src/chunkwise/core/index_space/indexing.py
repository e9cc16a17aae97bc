"""The indexing surface that transforms, specs, schemas and stores share.

A class gets all of it by defining how a function of an index transform applies to it.
"""

from __future__ import annotations

import abc
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from chunkwise.core.index_space import dim_operations as ops
from chunkwise.core.index_space.box import IndexMapping, M
from chunkwise.core.index_space.compose import compose, restrict
from chunkwise.core.index_space.dim_expression import AllDimensionsMixin, DimExpression, apply_expression
from chunkwise.core.index_space.domain import IndexDomain
from chunkwise.core.index_space.fast_indexing import fast_arrays
from chunkwise.core.index_space.numpy_indexing import Mode, index_all
from chunkwise.core.index_space.numpy_terms import parse_terms
from chunkwise.core.index_space.subscript import (
    Subscript,
    WritableSubscript,
    as_index_error,
    as_value_error,
)

__all__ = ["Indexable", "IndexingMixin", "WritableIndexingMixin", "index_mapping"]

S = TypeVar("S", bound="IndexingMixin")
W = TypeVar("W", bound="WritableIndexingMixin")


def index_mapping(m: M, key: Any, mode: Mode = "default") -> M:
    """Return `m` indexed by a NumPy-style expression, domain, transform or dimension expression."""
    fast = fast_arrays(m._domain, m._output, key, mode)
    return as_index_error(_index, m, key, mode) if fast is None else m._make(*fast)


def _index(m: M, key: Any, mode: Mode) -> M:
    if mode == "default":
        if isinstance(key, DimExpression):
            return apply_expression(m, key)
        if isinstance(key, IndexDomain):
            return restrict(m, key)
        if isinstance(key, IndexMapping):
            return compose(m, key)
    return index_all(m, parse_terms(key), mode)


if TYPE_CHECKING:

    class Indexable(Protocol):
        """Object that is indexed like an array, with a result of the same kind."""

        def __getitem__(self, key: Any, /) -> Self: ...

else:

    class Indexable(abc.ABC):  # noqa: B024 - nothing derives from it
        """Object that is indexed like an array and gives its own kind: a transform, a spec, an array.

        Classes are registered, not derived, because a look at an abstract base class takes its time.
        """


class IndexingMixin(AllDimensionsMixin):
    """Indexing by brackets, ``oindex``, ``vindex`` and the operations on all dimensions."""

    __slots__ = ()

    @abstractmethod
    def _apply_transform_fn(self: S, fn: Callable[[Any], Any]) -> S:
        """Return a like object whose `IndexTransform` is what `fn` makes of this one's."""

    def _index(self: S, key: Any, mode: Mode) -> S:
        return self._apply_transform_fn(lambda t: index_mapping(t, key, mode))

    def __getitem__(self: S, key: Any) -> S:
        """Index by a NumPy-style expression, a domain, a transform or a dimension expression.

        Raises
        ------
        OutOfBoundsError
            If the key does not fit the domain.
        """
        return self._apply_transform_fn(lambda t: t[key])

    # Without this, iteration would call __getitem__ with 0, 1, 2, ...
    __iter__ = None

    @property
    def oindex(self: S) -> Subscript[S]:
        """Outer indexing: each index array applies to its own dimension."""
        return Subscript(self, "oindex", lambda key: self._index(key, "oindex"))

    @property
    def vindex(self: S) -> Subscript[S]:
        """Vectorized indexing: index arrays are broadcast, and their dimensions come first."""
        return Subscript(self, "vindex", lambda key: self._index(key, "vindex"))

    def _operate(self: S, run: Callable[..., Any], argument: Any) -> S:
        return self._apply_transform_fn(lambda t: as_value_error(run, t, range(t.input_rank), argument)[0])

    def transpose(self: S, axes: int | str | Sequence[int | str] | None = None) -> S:
        """Return a view with the dimensions in the order of `axes`, numbers or labels, or reversed.

        Parameters
        ----------
        axes : int, str or sequence of these, optional
            Numbers or labels of the dimensions, each one once; by default all, in reverse.

        Raises
        ------
        InvalidArgumentError
            If `axes` is not a permutation of all dimensions.
        """
        return self._apply_transform_fn(lambda t: as_value_error(ops.transpose_all, t, axes))


class WritableIndexingMixin(IndexingMixin):
    """Indexing that can be assigned to; a subclass has `_write_at`, and `_transform`, an `IndexTransform`."""

    __slots__ = ()

    _transform: Any

    @abstractmethod
    def _write_at(self, transform: Any, value: Any) -> None:
        """Write `value`, broadcast, to the elements that `transform` selects, and wait for the commit."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write_at(self._transform[key], value)

    def _assign(self, mode: Mode) -> Callable[[Any, Any], None]:
        return lambda key, value: self._write_at(index_mapping(self._transform, key, mode), value)

    @property
    def oindex(self: W) -> WritableSubscript[W]:
        """Outer indexing: each index array applies to its own dimension."""
        return WritableSubscript(self, "oindex", lambda k: self._index(k, "oindex"), self._assign("oindex"))

    @property
    def vindex(self: W) -> WritableSubscript[W]:
        """Vectorized indexing: index arrays are broadcast, and their dimensions come first."""
        return WritableSubscript(self, "vindex", lambda k: self._index(k, "vindex"), self._assign("vindex"))
