"""What is asked for is there, or there is a clear error and nothing has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from destinations.request_model import findings

_MANY = int(os.environ.get("CHUNKWISE_REQUESTS", "3000"))


def test_random_requests(tmp_path: Path) -> None:
    assert findings(1, 150, tmp_path) == {}


@pytest.mark.slow
def test_many_random_requests(tmp_path: Path) -> None:
    """``CHUNKWISE_REQUESTS`` says how many."""
    assert findings(2, _MANY, tmp_path) == {}
