"""Algebra on integers: domains, index transforms, and all ways of indexing them."""

from chunkwise.core.index_space.bounds import align, align_by_position, marked_like, resolve_bounds
from chunkwise.core.index_space.dim import Dim
from chunkwise.core.index_space.dim_expression import DimExpression, DimSelection, d
from chunkwise.core.index_space.domain import IndexDomain, merge_domains
from chunkwise.core.index_space.indexing import Indexable, IndexingMixin, WritableIndexingMixin
from chunkwise.core.index_space.interval import INF
from chunkwise.core.index_space.output_map import OutputIndexMap, OutputIndexMaps, OutputIndexMethod
from chunkwise.core.index_space.transform import IndexTransform

__all__ = [
    "Dim",
    "DimExpression",
    "DimSelection",
    "IndexDomain",
    "IndexTransform",
    "Indexable",
    "IndexingMixin",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "WritableIndexingMixin",
    "align",
    "align_by_position",
    "compose",
    "d",
    "inf",
    "marked_like",
    "merge_domains",
    "newaxis",
    "resolve_bounds",
]

Indexable.register(IndexTransform)

inf = INF
"""The index that stands for an infinite upper bound; ``-inf`` stands for a lower one."""
newaxis = None
"""Term of an index that adds a dimension of size 1."""


def compose(a: IndexTransform, b: IndexTransform) -> IndexTransform:
    """Return the transform ``x -> a(b(x))``, which is ``a[b]``."""
    return a.compose(b)
