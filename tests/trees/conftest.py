"""Trees in each format, in memory behind a store that writes down every request, and on disk."""

from __future__ import annotations

import pytest
from tests.trace_store import TraceStore

from chunkwise.core.kvstore.memory import MemoryStore

FORMATS = ("zarr3", "zarr2", "n5")


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def trace() -> TraceStore:
    return TraceStore(MemoryStore())
