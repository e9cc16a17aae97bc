"""Environments with other releases, which the tests make themselves and keep in a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["PEERS", "peer_python", "python_with"]

PEERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "0.13": (
        "3.11",
        ("hdmf-zarr==0.13.0", "zarr==2.18.7", "numcodecs==0.15.2", "hdmf==6.2.0", "pynwb==4.2.0"),
    ),
    "0.14": ("3.12", ("hdmf-zarr==0.14.0", "zarr==3.4.2", "hdmf==6.2.0", "pynwb==4.2.0")),
}
"""Release of hdmf-zarr: the CPython that it needs, and what is installed."""


def _interpreter(version: str) -> str | None:
    candidates = [f"python{version}"]
    roots = [os.environ.get("PYENV_ROOT"), str(Path.home() / ".pyenv")]
    for root in filter(None, roots):
        candidates += [str(p) for p in sorted(Path(root).glob(f"versions/{version}.*/bin/python"))]
    for candidate in candidates:
        found = shutil.which(candidate)
        if found is None:
            continue
        done = subprocess.run(
            [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.stdout.strip() == version:  # a shim of pyenv may lead nowhere
            return found
    return None


def peer_python(release: str) -> str:
    """Return the interpreter of an environment with a release."""
    version, packages = PEERS[release]
    return python_with(packages, version, f"hdmf-zarr-{release}")


def python_with(packages: tuple[str, ...], version: str, label: str) -> str:
    """Return the interpreter of an environment with packages; skip if there is no CPython of that version."""
    name = hashlib.sha256(" ".join((version, *packages)).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "chunkwise-tests"
    home = cache / f"{label}-{name}"
    python = home / "bin" / "python"
    if (home / ".complete").exists():
        return str(python)
    base = _interpreter(version)
    if base is None:
        pytest.skip(f"not run: {label} needs CPython {version}, which was not found")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several runs of the tests share the cache
        if not (home / ".complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([base, "-m", "venv", str(home)], check=True, timeout=300, capture_output=True)
            done = subprocess.run(
                [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                capture_output=True,
                text=True,
                timeout=900,
            )
            assert done.returncode == 0, f"{label} can't be installed: {done.stderr[-300:]}"
            (home / ".complete").touch()
    return str(python)
