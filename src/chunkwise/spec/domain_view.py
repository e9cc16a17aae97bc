"""The domain of an array, from the domain that is asked of a view of it."""

from __future__ import annotations

from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space import IndexDomain, IndexTransform

__all__ = ["inverse_view_domain"]


def inverse_view_domain(domain: IndexDomain, transform: IndexTransform) -> IndexDomain:
    """Return the domain that an array must have for its view by `transform` to have `domain`."""
    # Labels are those of `domain`.
    labels = []
    for m in transform.output:
        kind = "a constant" if m.input_dimension is None else "non-unit-stride"
        if m.index_array is not None:
            kind = "an array"
        if m.input_dimension is None or m.stride not in (1, -1):
            finite = "finite " if m.input_dimension is not None else ""
            raise InvalidArgumentError(
                "Error transforming domain: "
                f"Cannot specify {finite}domain through a transform with {kind} "
                "output index map"
            )
        labels.append(domain.labels[m.input_dimension])
    inverse = transform.inverse()
    free = IndexDomain(rank=inverse.input_rank, labels=labels)
    back = IndexTransform(free, list(inverse.output))
    return IndexTransform.identity(domain).compose(back).domain
