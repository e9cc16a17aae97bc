"""Chunks of which elements are picked: a helper decodes them whole, and this process takes what is wanted.

Index arrays need not be handed over then, and what a helper decodes lies in its slot a chunk after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.plan import chunk_order, selections

__all__ = ["chunk_sets", "pick", "whole_chunks"]


def chunk_sets(axes: Sequence[PlanAxis]) -> list[dict[str, Any]]:
    """Return which chunks a part of a plan touches, as JSON."""
    return [{"dims": axis.dims, "cells": axis.cells} for axis in axes]


def whole_chunks(sets: Sequence[dict[str, Any]]) -> tuple[PlanAxis, ...]:
    """Return the plan of reading such chunks to memory where they lie one after the other."""
    axes = []
    for one in sets:
        cells = tuple(map(tuple, one["cells"]))
        n = len(cells[0])
        anywhere = (slice(None),) * n
        axes.append(PlanAxis(tuple(one["dims"]), cells, (), anywhere, anywhere, (True,) * n, False))
    return tuple(axes)


def pick(axes: tuple[PlanAxis, ...], chunks: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    """Copy the selected elements of `chunks`, which lie along the first axis, to their places in `view`."""
    dims = chunk_order(axes)
    ordered = chunks.transpose(0, *[1 + dim for dim in dims])
    inside, at = selections(axes)
    for chunk, elements, place in zip(ordered, inside, at, strict=True):
        view[place] = chunk[elements]
