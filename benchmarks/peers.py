"""The libraries that are compared, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["Peer", "PeerError", "fused_interpreter", "start"]

WORKER = Path(__file__).with_name("worker.py")
FUSED = "zarr.core.codec_pipeline.FusedCodecPipeline"
OLDEST, NEWEST = (3, 12), (3, 14)


class PeerError(Exception):
    """A library is not available, or failed."""


class Peer:
    """A library that waits for commands."""

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [python, str(WORKER), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        hello = self.ask(do="hello")
        self.version: str = hello["version"]
        self.python: str = hello["python"]

    def ask(self, **command: Any) -> dict[str, Any]:
        """Run a command; return the answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError(f"{self.name}: its process has ended") from None
        line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.name}: its process has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def seconds(self, **command: Any) -> float:
        """Run a command; return the seconds it took."""
        return float(self.ask(**command)["seconds"])

    def stop(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def start(name: str, cache: Path) -> Peer:
    """Start the library `name`; its environment, if needed, is made in `cache`.

    Raises
    ------
    PeerError
        If it is not available here, with the reason.
    """
    return Peer(name, fused_interpreter(cache) if name == "fused" else sys.executable)


def fused_interpreter(cache: Path) -> str:
    """Return an interpreter that has zarr-python with FusedCodecPipeline, making its environment once."""
    environment = cache / "zarr-fused"
    python = environment / "bin" / "python"
    if not _has_fused(str(python)):
        newer = _newer_python()
        if newer is None:
            raise PeerError("FusedCodecPipeline: not run, no CPython 3.12 or newer found")
        shutil.rmtree(environment, ignore_errors=True)
        try:
            _run([*newer, "-m", "venv", str(environment)])
            _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "zarr>=3.3"])
        except (OSError, subprocess.CalledProcessError) as e:
            raise PeerError(f"FusedCodecPipeline: not run, its environment can't be made: {e}") from None
        if not _has_fused(str(python)):
            raise PeerError("FusedCodecPipeline: not run, the installed zarr-python has none")
    return str(python)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout


def _has_fused(python: str) -> bool:
    try:
        _run([python, "-c", f"from {FUSED.rpartition('.')[0]} import {FUSED.rpartition('.')[2]}"])
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _newer_python() -> list[str] | None:
    """Return the command of an interpreter that is new enough: this one, on the path, or one of pyenv's."""
    commands = [[sys.executable]]
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        found = shutil.which(f"python3.{minor}")
        if found:
            commands.append([found])
    pyenv = shutil.which("pyenv")
    if pyenv:
        try:
            versions = _run([pyenv, "versions", "--bare"]).split()
            commands += [[_run([pyenv, "prefix", v]).strip() + "/bin/python"] for v in versions]
        except (OSError, subprocess.CalledProcessError):
            pass
    for home in (os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")):
        if home:
            commands += [[str(python)] for python in sorted(Path(home, "versions").glob("3.*/bin/python"))]
    test = f"import sys; assert sys.version_info >= {OLDEST!r}; import venv, ensurepip"
    for command in commands:
        try:
            _run([*command, "-c", test])
        except (OSError, subprocess.CalledProcessError):
            continue
        return command
    return None
