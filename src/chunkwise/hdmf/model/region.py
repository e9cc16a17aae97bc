"""Regions of datasets: one JSON form for every storage format, and the elements that a region selects."""

# =========== ==========================================================================
# ``type``    members
# =========== ==========================================================================
# all         --
# none        ``ndim``
# slices      ``slices``: [start, stop, step] for each axis
# hyperslab   ``start``, ``stride``, ``count``, ``block``: one number each for each axis
# blocks      ``blocks``: boxes [[first…], [last…]], corners included
# points      ``points``: coordinates, in order
# =========== ==========================================================================
#
# Each also has ``shape``, that of the target when the reference was made.  Axes are in the order in which
# users see them.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError, InvalidArgumentError, OutOfBoundsError
from chunkwise.extension.inside import position, positions

__all__ = ["hyperslab_axes", "normalize_region", "parse_region", "same_region", "select_region"]

# -- the JSON form ------------------------------------------------------------------------------------

_MAX_BOXES = 1 << 22


def normalize_region(given: Any, shape: Sequence[int]) -> dict[str, Any]:
    """Return the canonical form of a region of a dataset of the given shape."""
    shape = [int(n) for n in shape]
    if isinstance(given, Mapping):
        return parse_region({"shape": shape, **given}, shape)
    if given is Ellipsis:
        return {"type": "all", "shape": shape}
    if (isinstance(given, np.ndarray) and given.dtype.kind == "b") or _is_mask(given):
        mask = np.asarray(given)
        if mask.shape != tuple(shape):
            raise InvalidArgumentError(f"mask of shape {mask.shape} for a dataset of shape {tuple(shape)}")
        return _points(np.argwhere(mask).tolist(), shape)
    if isinstance(given, list | np.ndarray):
        return _from_list(list(given), shape)
    return _from_index(given, shape)


def _is_mask(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(v, bool | np.bool_) for v in given)


def _points(points: list[list[int]], shape: list[int]) -> dict[str, Any]:
    for point in points:
        if len(point) != len(shape):
            raise InvalidArgumentError(f"point {point} for a dataset of rank {len(shape)}")
        if any(not 0 <= i < n for i, n in zip(point, shape, strict=True)):
            raise OutOfBoundsError(f"point {point} is outside shape {shape}")
    return {"type": "points", "points": points, "shape": shape}


def _from_list(items: list[Any], shape: list[int]) -> dict[str, Any]:
    if items and all(isinstance(item, tuple | list | np.ndarray) for item in items):
        return _points([[position(int(i), n) for i, n in _paired(item, shape)] for item in items], shape)
    if not all(isinstance(i, int | np.integer) for i in items):
        raise InvalidArgumentError(
            f"Expected a list of integers or of coordinates, but received: {items!r:.100}"
        )
    return _from_axis_list([int(i) for i in items], 0, shape, list(map(range, shape)))


def _paired(item: Any, shape: list[int]) -> list[tuple[Any, int]]:
    if len(item) != len(shape):
        raise InvalidArgumentError(f"point {list(item)} for a dataset of rank {len(shape)}")
    return list(zip(item, shape, strict=True))


def _from_axis_list(indices: list[int], axis: int, shape: list[int], ranges: list[range]) -> dict[str, Any]:
    """Return one box for each index along `axis`; points if that is all there is."""
    if not shape:
        raise InvalidArgumentError("a scalar dataset has no axis to pick along")
    indices = [position(i, shape[axis]) for i in indices]
    if len(shape) == 1:
        return _points([[i] for i in indices], shape)
    if any(r.step != 1 for d, r in enumerate(ranges) if d != axis):
        raise InvalidArgumentError("a list on one axis goes with slices of step 1 on the others")
    if any(len(r) == 0 for d, r in enumerate(ranges) if d != axis) or not indices:
        return {"type": "none", "ndim": len(shape), "shape": shape}
    first = [r.start for r in ranges]
    last = [r[-1] if len(r) else r.start for r in ranges]
    blocks = []
    for i in indices:
        first[axis] = last[axis] = i
        blocks.append([list(first), list(last)])
    return {"type": "blocks", "blocks": blocks, "shape": shape}


def _from_index(index: Any, shape: list[int]) -> dict[str, Any]:
    found = positions(index, shape)
    if any(part is None or np.ndim(part) > 1 or isinstance(part, np.bool_) for part in found):
        raise InvalidArgumentError(f"Expected slices, integers or one list, but received: {index!r:.100}")
    terms: Sequence[Any] = [range(part, part + 1) if isinstance(part, int) else part for part in found]
    listed = [d for d, part in enumerate(terms) if not isinstance(part, range) or part.step < 0]
    if len(listed) > 1:
        raise InvalidArgumentError("only one axis may have a list or a negative step")
    if listed:
        ranges = [part if isinstance(part, range) else range(0) for part in terms]
        return _from_axis_list([int(i) for i in terms[listed[0]]], listed[0], shape, ranges)
    slices = [[part.start, max(part.start, part.stop), part.step] for part in terms]
    return {"type": "slices", "slices": slices, "shape": shape}


# -- reading ------------------------------------------------------------------------------------------


def _numbers(value: Any, rank: int | None = None) -> list[int]:
    if not isinstance(value, list | tuple) or not all(type(i) is int and i >= 0 for i in value):
        raise DataCorruptionError(
            f"Expected a list of integers that are not negative, but received: {value!r:.100}"
        )
    if rank is not None and len(value) != rank:
        raise DataCorruptionError(f"Expected {rank} numbers, but received: {value!r:.100}")
    return list(value)


def parse_region(value: Any, shape: Sequence[int] | None = None) -> dict[str, Any]:
    """Check a stored region and return it."""
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise DataCorruptionError(f"Expected a region with a type, but received: {value!r:.100}")
    own = _numbers(value.get("shape", list(shape or ())))
    rank, kind = len(own), value["type"]
    out: dict[str, Any] = {"type": kind}
    if kind == "none":
        out["ndim"] = value.get("ndim", rank)
    elif kind == "slices":
        given = value.get("slices")
        if not isinstance(given, list | tuple) or len(given) != rank:
            raise DataCorruptionError(f"Expected slices for {rank} axes, but received: {given!r:.100}")
        out["slices"] = [_numbers(s, 3) for s in given]
        if any(step < 1 or stop < start for start, stop, step in out["slices"]):
            raise DataCorruptionError(
                f"Expected start <= stop and step >= 1, but received: {out['slices']!r:.100}"
            )
    elif kind == "hyperslab":
        for name in ("start", "stride", "count", "block"):
            out[name] = _numbers(value.get(name), rank)
        if any(
            s < 1 or b < 1 or (b > s and c > 1)
            for s, b, c in zip(out["stride"], out["block"], out["count"], strict=True)
        ):
            raise DataCorruptionError("blocks of a hyperslab overlap, or stride or block is 0")
    elif kind == "blocks":
        given = value.get("blocks")
        if not isinstance(given, list | tuple) or len(given) > _MAX_BOXES:
            raise DataCorruptionError(f"Expected a list of boxes, but received: {given!r:.100}")
        for box in given:
            if not isinstance(box, list | tuple) or len(box) != 2:
                raise DataCorruptionError(f"Expected a box of two corners, but received: {box!r:.100}")
        out["blocks"] = [[_numbers(first, rank), _numbers(last, rank)] for first, last in given]
        if any(f > t for first, last in out["blocks"] for f, t in zip(first, last, strict=True)):
            raise DataCorruptionError("a box ends before it begins")
    elif kind == "points":
        given = value.get("points")
        if not isinstance(given, list | tuple):
            raise DataCorruptionError(f"Expected a list of points, but received: {given!r:.100}")
        out["points"] = [_numbers(p, rank) for p in given]
    elif kind != "all":
        raise DataCorruptionError(f'region has unknown type "{kind}"')
    out["shape"] = own
    if shape is not None:
        _check_inside(out, shape)
    return out


def _needed(region: Mapping[str, Any]) -> list[int]:
    """Return the least size of the target along each axis."""
    kind, rank = region["type"], len(region["shape"])
    if kind == "all":
        return list(region["shape"])
    if kind == "slices":
        ranges = [range(*s) for s in region["slices"]]
        return [0] * rank if any(len(r) == 0 for r in ranges) else [r[-1] + 1 for r in ranges]
    if kind == "hyperslab":
        terms = list(zip(region["start"], region["stride"], region["count"], region["block"], strict=True))
        if any(count == 0 for _, _, count, _ in terms):
            return [0] * rank
        return [start + stride * (count - 1) + block for start, stride, count, block in terms]
    if kind == "blocks" and region["blocks"]:
        return [max(last[d] for _, last in region["blocks"]) + 1 for d in range(rank)]
    if kind == "points" and region["points"]:
        return [max(p[d] for p in region["points"]) + 1 for d in range(rank)]
    return [0] * rank


def _check_inside(region: Mapping[str, Any], shape: Sequence[int]) -> None:
    if len(shape) != len(region["shape"]):
        raise OutOfBoundsError(f"region of rank {len(region['shape'])} for a dataset of rank {len(shape)}")
    needed = _needed(region)
    if any(want > have for want, have in zip(needed, shape, strict=True)):
        raise OutOfBoundsError(f"region reaches up to {needed}, but the dataset has shape {list(shape)}")


def select_region(dataset: Any, region: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Return the elements of a region; the result has the shape that h5py gives."""
    region = parse_region(region)
    shape = tuple(dataset.shape)
    _check_inside(region, shape)
    kind, rank = region["type"], len(shape)
    if kind == "none":
        return np.empty(0, getattr(dataset, "dtype", object))
    if kind == "all":
        return np.asarray(dataset[tuple(slice(0, n) for n in region["shape"])] if rank else dataset[()])
    if kind == "slices":
        return np.asarray(dataset[tuple(slice(*s) for s in region["slices"])])
    if kind == "hyperslab":
        return _hyperslab(dataset, region)
    if kind == "points":
        return _pick(dataset, np.asarray(region["points"], np.intp).reshape(-1, rank))
    return _blocks(dataset, region["blocks"])


def hyperslab_axes(region: Mapping[str, Any]) -> list[npt.NDArray[np.intp]]:
    """Return the indices along each axis that a hyperslab selects."""
    terms = zip(region["start"], region["stride"], region["count"], region["block"], strict=True)
    return [
        (np.arange(count)[:, None] * stride + np.arange(block) + start).reshape(-1)
        for start, stride, count, block in terms
    ]


def _hyperslab(dataset: Any, region: Mapping[str, Any]) -> npt.NDArray[Any]:
    axes = hyperslab_axes(region)
    if any(a.size == 0 for a in axes):
        return np.empty([a.size for a in axes], getattr(dataset, "dtype", object))
    # One read of the bounding box, then the regular grid inside it.
    box: npt.NDArray[Any] = np.asarray(dataset[tuple(slice(int(a[0]), int(a[-1]) + 1) for a in axes)])
    inside: npt.NDArray[Any] = box[np.ix_(*[a - a[0] for a in axes])]
    return inside


def _pick(dataset: Any, points: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    if not len(points):
        return np.empty(0, getattr(dataset, "dtype", object))
    low = points.min(axis=0)
    box = np.asarray(
        dataset[tuple(slice(int(a), int(b) + 1) for a, b in zip(low, points.max(axis=0), strict=True))]
    )
    picked: npt.NDArray[Any] = box[tuple((points - low).T)]
    return picked


def _blocks(dataset: Any, blocks: list[Any]) -> npt.NDArray[Any]:
    parts = [np.asarray(dataset[tuple(slice(f, t + 1) for f, t in zip(*box, strict=True))]) for box in blocks]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.empty(0, getattr(dataset, "dtype", object))
    # Boxes make a grid if they differ along one axis only, or are all combinations of their ranges on each.
    rank = parts[0].ndim
    spans = [list(dict.fromkeys((box[0][d], box[1][d]) for box in blocks)) for d in range(rank)]
    varied = [d for d in range(rank) if len(spans[d]) > 1]
    if len(varied) <= 1:
        return np.concatenate(parts, axis=varied[0] if varied else 0)
    n_combinations = int(np.prod([len(span) for span in spans]))
    if n_combinations == len(blocks) == len({(tuple(first), tuple(last)) for first, last in blocks}):
        axes = [np.concatenate([np.arange(f, t + 1) for f, t in span]) for span in spans]
        low = [int(a.min()) for a in axes]
        box = np.asarray(dataset[tuple(slice(lo, int(a.max()) + 1) for lo, a in zip(low, axes, strict=True))])
        grid: npt.NDArray[Any] = box[np.ix_(*[a - lo for a, lo in zip(axes, low, strict=True)])]
        return grid
    coordinates = np.concatenate(
        [
            np.stack(
                np.meshgrid(*[np.arange(f, t + 1) for f, t in zip(*b, strict=True)], indexing="ij"), -1
            ).reshape(-1, rank)
            for b in blocks
        ]
    )
    order = np.lexsort(tuple(coordinates[:, d] for d in reversed(range(rank))))
    return np.asarray(np.concatenate([p.reshape(-1) for p in parts])[order])


# -- elements -----------------------------------------------------------------------------------------

_Axis: TypeAlias = tuple[range, ...]
"""Indices along an axis: ranges that follow each other."""

_MAX_EXPANDED = 1 << 22
"""Regions of up to so many elements are compared element by element."""


def same_region(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return True if two regions select the same elements in the same order."""
    a, b = parse_region(a), parse_region(b)
    if a == b:
        return True
    parts = [_boxes(region) for region in (a, b)]
    sizes = [sum(math.prod(sum(map(_size, axis)) for axis in box) for box in boxes) for boxes in parts]
    if sizes[0] != sizes[1]:
        return False
    if sizes[0] == 0:
        return True
    if parts[0] == parts[1]:
        return True
    if sizes[0] > _MAX_EXPANDED:
        return False
    x, y = map(_expanded, parts)
    return x.shape == y.shape and bool((x == y).all())


def _boxes(region: Mapping[str, Any]) -> list[tuple[_Axis, ...]]:
    """Return grids of indices, whose elements follow each other."""
    kind = region["type"]
    if kind == "all":
        return [tuple(_joined([range(n)]) for n in region["shape"])]
    if kind == "slices":
        return [tuple(_joined([range(*part)]) for part in region["slices"])]
    if kind == "hyperslab":
        terms = zip(region["start"], region["stride"], region["count"], region["block"], strict=True)
        return [tuple(_slab(*term) for term in terms)]
    if kind == "points":
        return [tuple((range(i, i + 1),) for i in point) for point in region["points"]]
    if kind == "blocks":
        return [
            tuple((range(f, t + 1),) for f, t in zip(first, last, strict=True))
            for first, last in region["blocks"]
        ]
    return []


def _slab(start: int, stride: int, count: int, block: int) -> _Axis:
    if block == 1:
        return _joined([range(start, start + stride * count, stride)])
    if count > _MAX_EXPANDED:  # too many to be listed; equal to the same slab only
        return (range(start, start + stride * count, stride), range(-block, 0))
    return _joined([range(at, at + block) for at in range(start, start + stride * count, stride)])


def _joined(parts: Sequence[range]) -> _Axis:
    """Return ranges with those of step 1 that touch made one, and none that is empty."""
    out: list[range] = []
    for part in parts:
        part = part if _size(part) != 1 else range(part.start, part.start + 1)
        if out and part and out[-1].step == part.step == 1 and out[-1].stop == part.start:
            out[-1] = range(out[-1].start, part.stop)
        elif part:
            out.append(part)
    return tuple(out)


def _size(part: range) -> int:
    # len() has a limit, which numbers in a file need not keep to.
    return max(0, -((part.start - part.stop) // part.step))


def _expanded(boxes: Sequence[tuple[_Axis, ...]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the coordinates of all elements, one row for each."""
    rows = []
    for box in boxes:
        axes = [np.concatenate([np.arange(r.start, r.stop, r.step) for r in axis]) for axis in box]
        rows.append(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes)))
    return np.concatenate(rows)
