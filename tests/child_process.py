"""Child processes that end: with their test, after a time, or with the process that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECONDS = 120.0
"""Seconds that a child may run by default."""

# Runs in the child, before its program: the kernel is to kill it when the parent ends, however that ends.
# The parent may have ended already.  A program of its own, since code between fork and exec may deadlock.
# What a shell starts in the background ignores Ctrl-C, and so would all of its children.
_BOUND = """
import os, signal, sys
parent, program = int(sys.argv[1]), sys.argv[2:]
signal.signal(signal.SIGINT, signal.SIG_DFL)
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != parent:
    os._exit(1)
os.execvp(program[0], program)
"""


def start(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process in a group of its own that does not outlive this one and shares no stream with it.

    Streams that are not named in ``options`` are ``/dev/null``: a pipe of the test runner's that a child
    keeps open would keep whoever reads it waiting.
    """
    for stream in ("stdin", "stdout", "stderr"):
        options.setdefault(stream, subprocess.DEVNULL)
    bound = [sys.executable, "-I", "-S", "-c", _BOUND, str(os.getpid()), *command]
    return subprocess.Popen(bound, start_new_session=True, **options)


def kill(process: subprocess.Popen[Any]) -> None:
    """End a process that :func:`start` has started and all of its group, and close the pipes to it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Children:
    """Starts processes and kills those that are left in the end."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            kill(process)

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process as :func:`start` does."""
        self._processes.append(start(command, **options))
        return self._processes[-1]

    def python(self, code: str, *arguments: object, **options: Any) -> subprocess.Popen[Any]:
        """Start Python with code, warnings being errors, and pipes to its output and its errors."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return self.start([sys.executable, "-W", "error", "-c", code, *map(str, arguments)], **pipes)


def run(command: list[str], *, log: Path, seconds: float = SECONDS, **options: Any) -> int | None:
    """Run a command to its end, its output going to a file; kill its group and return None if it is late."""
    with log.open("wb") as out:
        process = start(command, stdout=out, stderr=subprocess.STDOUT, **options)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill(process)


def forked_exit_code(work: Callable[[], int], seconds: float = 60.0) -> int:
    """Run ``work`` in a forked child and return the status that it ended with; kill it if it is late.

    The child leaves without unwinding: nothing of the test runner's is run twice.
    """
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                pid = 0
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    pytest.fail(f"the forked process did not end within {seconds:g} s")
