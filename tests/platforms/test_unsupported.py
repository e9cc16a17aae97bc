"""A Python or a platform that isn't supported is told in one clear sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        (
            "sys.version_info, sys.version = (3, 10, 13, 'final', 0), '3.10.13 (main)'",
            "chunkwise needs Python 3.11 or later, and this is 3.10.13",
        ),
        (
            "sys.modules['fcntl'], sys.platform = None, 'emscripten'",
            "chunkwise can't lock files on emscripten; expected Linux, macOS or Windows",
        ),
    ],
)
def test_one_sentence(before: str, sentence: str) -> None:
    program = f"import sys; {before}\nimport chunkwise"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: {sentence}"
    assert "During handling" not in done.stderr and "direct cause" not in done.stderr
