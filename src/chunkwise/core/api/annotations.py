"""Names for annotations: indexing terms, selections of dimensions, staleness bounds."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from types import EllipsisType
from typing import Literal, SupportsIndex, TypeAlias, TypeVar, Union

import numpy.typing as npt

from chunkwise.core.engine.future import Future
from chunkwise.core.index_space import DimSelection

__all__ = [
    "DimSelectionLike",
    "DownsampleMethod",
    "FutureLike",
    "NumpyIndexTerm",
    "NumpyIndexingSpec",
    "RecheckCacheOption",
    "T",
]

T = TypeVar("T", covariant=True)

FutureLike: TypeAlias = Union[Future[T], Awaitable[T], T]  # noqa: UP007
"""A future, something else that can be awaited, or the value itself."""

RecheckCacheOption: TypeAlias = Union[bool, Literal["open"], float]  # noqa: UP007
"""Staleness bound of cached data.

True: check at each operation; False: never check; ``"open"``: check if older than the opening of the array; a
float: check if older than that time, in seconds since the epoch.
"""

DownsampleMethod: TypeAlias = Literal["stride", "median", "mode", "mean", "min", "max"]
"""Method that reduces a cell to one element."""

NumpyIndexTerm: TypeAlias = Union[SupportsIndex, slice, EllipsisType, npt.ArrayLike, None]  # noqa: UP007
"""One term of a NumPy-style index."""

NumpyIndexingSpec: TypeAlias = Union[NumpyIndexTerm, tuple[NumpyIndexTerm, ...]]  # noqa: UP007
"""A NumPy-style index."""

DimSelectionLike: TypeAlias = Union[  # noqa: UP007
    DimSelection, SupportsIndex, str, bytes, slice, Sequence["DimSelectionLike"]
]
"""Key of ``d[...]``."""
