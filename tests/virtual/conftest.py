"""Helpers beside the tests can be imported."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import chunkwise
import chunkwise.core.arrays.stack_layer  # which has the metric

sys.path.insert(0, str(Path(__file__).parent))


def _n_opened() -> int:
    [metric] = chunkwise.experimental_collect_matching_metrics("/chunkwise/stack/layers_opened", True)
    return metric["values"][0]["value"]


@pytest.fixture
def opened() -> Callable[[], int]:
    """Return a function that says how many layers of stacks were opened since it was called last."""
    known = _n_opened()

    def opened() -> int:
        nonlocal known
        before, known = known, _n_opened()
        return known - before

    return opened
