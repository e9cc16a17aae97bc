"""Reports on stacks: the gaps between their layers, and their overlaps."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.stack import StackArray
from chunkwise.core.base.binding import JSON
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan.coverage import Box, Overlap, overlaps, uncovered
from chunkwise.errors import InvalidArgumentError

__all__ = ["Box", "StackReport", "is_stack", "report_stack"]

_MOST_SHOWN = 1000


class StackReport(NamedTuple):
    """Gaps and overlaps of the layers of a stack."""

    n_layers: int
    domain: IndexDomain
    gaps: tuple[Box, ...]  # no more than the first thousand, and so are overlaps
    n_missing: int  # elements without a layer
    overlaps: tuple[Overlap, ...]  # pairs of layers with elements in common
    n_overlaps: int
    n_hidden: int  # elements of layers that others lie over, counted for each that is hidden

    def to_json(self) -> dict[str, JSON]:
        """Return the report as JSON."""
        return {
            "layers": self.n_layers,
            "domain": self.domain.to_json(),
            "missing_elements": self.n_missing,
            "gaps": [[list(box.lower), list(box.upper)] for box in self.gaps],
            "overlapping_pairs": self.n_overlaps,
            "hidden_elements": self.n_hidden,
            "overlaps": [
                {"layers": [o.below, o.above], "region": [list(o.box.lower), list(o.box.upper)]}
                for o in self.overlaps
            ],
        }


def is_stack(store: TensorStore) -> bool:
    """Return True if an open array is a stack of layers."""
    return isinstance(store._array, StackArray)


def report_stack(store: TensorStore) -> StackReport:
    """Return the report on an open stack; no layer is opened."""
    array = store._array
    if not isinstance(array, StackArray):
        raise InvalidArgumentError("this array is not a stack")
    domain, boxes = array.domain, array.boxes
    gaps: list[Box] = []
    n_missing = 0
    for box in uncovered(domain.inclusive_min, domain.exclusive_max, boxes):
        n_missing += box.size
        if len(gaps) < _MOST_SHOWN:
            gaps.append(box)
    pairs = overlaps(boxes)
    shown = tuple(islice(pairs, _MOST_SHOWN))
    inside = [
        Box(
            tuple(map(max, low, domain.inclusive_min)),
            tuple(map(max, map(max, low, domain.inclusive_min), map(min, high, domain.exclusive_max))),
        ).size
        for low, high in zip(boxes.lower.tolist(), boxes.upper.tolist(), strict=True)
    ]
    return StackReport(
        n_layers=len(boxes.lower),
        domain=domain,
        gaps=tuple(sorted(gaps)),
        n_missing=n_missing,
        overlaps=shown,
        n_overlaps=len(shown) + sum(1 for _ in pairs),
        n_hidden=sum(inside) - (int(domain.size) - n_missing),
    )
