"""Fixtures of the HDMF tests: stores of released writers, unpacked once for each worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from nwb_fixtures import unpack_all


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with a directory for each zip, named like it, and the plain stores."""
    return unpack_all(tmp_path_factory.mktemp("nwb"))
