"""Files of the tests of kvstores, which are where files of users are."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Make a directory on a disk, wherever those of other tests are."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        yield Path(place)
