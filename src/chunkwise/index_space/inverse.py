"""Inversion of an index mapping."""

from __future__ import annotations

from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space.dim import Bounds
from chunkwise.index_space.interval import check_int64, pull_back
from chunkwise.index_space.mapping import M
from chunkwise.index_space.output_map import OutputIndexMap, constant_map, single_map

__all__ = ["invert"]


def invert(m: M) -> M:
    """Return the mapping from the outputs of `m` back to its inputs, or raise."""
    # A constant output becomes a dimension with one index, and an unused input that has one index a constant.
    domain = m._domain
    own = domain._bounds()
    bounds: list[Bounds] = []
    labels: list[str] = []
    inverse: list[OutputIndexMap | None] = [None] * domain.rank
    for i, x in enumerate(m._output):
        if x._array is not None:
            raise InvalidArgumentError(f"Transform is not invertible: output dimension {i} is an index array")
        if x._dim is None:
            bounds.append((x._offset, x._offset + 1, False, False))
            labels.append("")
            continue
        if x._stride not in (1, -1):
            raise InvalidArgumentError(
                f"Transform is not invertible: output dimension {i} has stride {x._stride}, not 1 or -1"
            )
        if inverse[x._dim] is not None:
            raise InvalidArgumentError(
                f"Transform is not invertible: input dimension {x._dim} determines more than one output"
            )
        # x = -offset / stride + output / stride, and 1 / stride is stride.
        offset = check_int64(-x._offset * x._stride, f"Integer overflow inverting output dimension {i}")
        lo, hi, implicit_lo, implicit_hi = own[x._dim]
        lo, hi = pull_back(lo, hi, offset, x._stride)
        if x._stride < 0:
            implicit_lo, implicit_hi = implicit_hi, implicit_lo
        bounds.append((lo, hi, implicit_lo, implicit_hi))
        labels.append(domain._labels[x._dim])
        inverse[x._dim] = single_map(offset, x._stride, i)
    for d, (lo, hi, _, _) in enumerate(own):
        if inverse[d] is None:
            if hi - lo != 1:
                raise InvalidArgumentError(
                    f"Transform is not invertible: unused input dimension {d} does not have a size of 1"
                )
            inverse[d] = constant_map(lo)
    output = tuple([x for x in inverse if x is not None])
    return m._make(domain._from_bounds(bounds, labels), output)
