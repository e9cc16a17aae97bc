"""Alignment of the source of a write with its target: broadcasting by label and by position."""

from __future__ import annotations

from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space.domain import IndexDomain
from chunkwise.index_space.output_map import constant_map, single_map
from chunkwise.index_space.transform import IndexTransform

__all__ = ["align"]


def align(source: IndexDomain, target: IndexDomain) -> IndexTransform:
    """Return the transform from `target` to `source` that broadcasts a source to a target."""
    # If one side has no labels, dimensions match from the last one backwards.  Otherwise equal labels match,
    # and then the unlabeled dimensions from the last one backwards.
    matches = _match(source, target)
    output, problems = [], []
    for i, lo in enumerate(source._lo):
        size = source._hi[i] - lo
        match = matches[i]
        if match is not None and target._hi[match] - target._lo[match] == size:
            output.append(single_map(lo - target._lo[match], 1, match))
            continue
        output.append(constant_map(lo))
        if size == 1:
            continue
        if match is None:
            problems.append(f"unmatched source dimension {i} {_shown(source, i)} does not have a size of 1")
        else:
            problems.append(
                f"source dimension {i} {_shown(source, i)} mismatch "
                f"with target dimension {match} {_shown(target, match)}"
            )
    if problems:
        raise InvalidArgumentError(f"Error aligning dimensions: {', '.join(problems)}")
    return IndexTransform._make(target, tuple(output))


def _shown(domain: IndexDomain, dim: int) -> str:
    return str(domain._dim(dim)).replace("*", "")


def _match(source: IndexDomain, target: IndexDomain) -> list[int | None]:
    """Return for each source dimension the target dimension that it belongs to, or None."""
    if any(source._labels) and any(target._labels):
        free = [d for d, label in enumerate(target._labels) if not label]
        mine = [d for d, label in enumerate(source._labels) if not label]
        named = {label: d for d, label in enumerate(target._labels) if label}
        matches = [named.get(label) for label in source._labels]
    else:
        free, mine = list(range(target.rank)), list(range(source.rank))
        matches = [None] * source.rank
    for d, t in zip(reversed(mine), reversed(free), strict=False):
        matches[d] = t
    return matches
