"""Algebra on integers: domains, index transforms, and all ways of indexing them."""

from chunkwise.index_space.bounds import align, resolve_bounds
from chunkwise.index_space.combine import merge_domains
from chunkwise.index_space.dim import Dim
from chunkwise.index_space.dim_expression import DimExpression, DimSelection, d
from chunkwise.index_space.domain import IndexDomain
from chunkwise.index_space.indexing import Indexable, IndexingMixin, WritableIndexingMixin
from chunkwise.index_space.interval import INF
from chunkwise.index_space.output_map import OutputIndexMap, OutputIndexMaps, OutputIndexMethod
from chunkwise.index_space.transform import IndexTransform

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
    "compose",
    "d",
    "inf",
    "merge_domains",
    "newaxis",
    "resolve_bounds",
]

Indexable.register(IndexTransform)

inf = INF
"""The index that stands for an infinite bound; ``-inf`` is that of a lower one."""
newaxis = None
"""Term of an index that adds a dimension of size 1."""


def compose(a: IndexTransform, b: IndexTransform) -> IndexTransform:
    """Return the transform ``x -> a(b(x))``, which is ``a[b]``."""
    return a.compose(b)
