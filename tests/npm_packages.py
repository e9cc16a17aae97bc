"""Programs in JavaScript that tests run, with their packages, which npm installs once for all runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from child_process import run


def cache_directory(name: str) -> Path:
    root = os.environ.get("CHUNKWISE_TEST_CACHE") or os.path.expanduser("~/.cache/chunkwise-tests")
    path = Path(root) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path: Path, patience: float = 280) -> Iterator[None]:
    """Hold the lock of a file, which another worker may hold for a while but not for ever."""
    with path.open("w") as file:
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    pytest.fail(f"another process held {path} for {patience:g} s")
                time.sleep(0.1)
        yield


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


def installed(folder: Path) -> Path:
    """Return a copy of a folder with the packages that are locked in it, made the first time."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.fail(f"{folder.name}, which the tests run, needs node and npm on the PATH")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    root = cache_directory(f"{folder.name}-{digest[:12]}")
    with locked(root / "lock"):
        if not (root / "installed").exists():
            for path in files:
                shutil.copy(path, root)
            command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            for _ in range(3):
                if run(command, log=root / "log", cwd=root, seconds=90) == 0:
                    break
            else:
                pytest.fail(f"npm can't install {folder.name}, three times: {tail(root / 'log')}")
            (root / "installed").touch()
    return root
