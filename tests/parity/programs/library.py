"""``Library``: a process that runs programs by one library, started again when a program ends or stops it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import chunkwise

__all__ = ["Library"]

_CHILD = Path(__file__).with_name("child.py")
_LONGEST = 20  # seconds for a program


class Library:
    """TensorStore or chunkwise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, steps: list[str]) -> list[Any] | str:
        """Return the outcomes of steps; "crash" or "hang" if the process did not survive them."""
        process = self._started()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(steps).encode() + b"\n")
            process.stdin.flush()
            answer = self._line(process)
        except BrokenPipeError:
            answer = b""
        if answer:
            found: list[Any] = json.loads(answer)
            return found
        self.close()
        return "hang" if answer is None else "crash"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            source = str(Path(chunkwise.__file__).parents[1])
            self._process = subprocess.Popen(
                [sys.executable, _CHILD, self._name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": source},
            )
            greeting = self._line(self._process, 120)
            assert greeting and json.loads(greeting) == self._name
        return self._process

    def _line(self, process: subprocess.Popen[bytes], seconds: float = _LONGEST) -> bytes | None:
        """Return the next line, empty at the end; None if there is none in time."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        return process.stdout.readline() if ready else None
