"""A second Python process that reads and writes small chunks, seen from this one.

Threads of one process pass the interpreter lock at each system call, and for chunks of some 10 KiB that
takes longer than the call.  A helper has a lock of its own.  It is told of an array, then of boxes of
elements, in lines of JSON over a socket, and answers each box with one byte.  The elements lie in memory
that both processes see, in one of two slots, so that it works on one box while the other one is copied.

It knows nothing but the files: what fails there is done again here, which gives the error.  It ends when
its socket is closed, however this process ends, or when it had nothing to do for two minutes.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DONE", "FAILED", "N_SLOTS", "SLOT_NBYTES", "HelperGoneError", "HelperProcess", "can_help"]

DONE, FAILED = b"+", b"-"
N_SLOTS = 3
SLOT_NBYTES = 1 << 23
_START = "import sys; sys.path[:] = {path!r}; from chunkwise.execute.helper.serve import serve; serve({fds})"


class HelperGoneError(Exception):
    """The helper has ended; what it was asked for is to be done by somebody else."""


def can_help() -> bool:
    """Whether this system and this program can have helpers."""
    return hasattr(os, "memfd_create") and bool(sys.executable) and not hasattr(sys, "frozen")


class HelperProcess:
    """One helper; it is used by one thread at a time.

    Attributes
    ----------
    lock : Lock
        Held by the thread that uses it.

    Raises
    ------
    OSError
        If the system does not start another process, or has no memory for it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ready = False
        self._owner = (os.geteuid(), os.getegid())
        ours, theirs = socket.socketpair()
        try:
            memory = os.memfd_create("chunkwise", os.MFD_CLOEXEC)
            try:
                os.ftruncate(memory, N_SLOTS * SLOT_NBYTES)
                self._memory = mmap.mmap(memory, N_SLOTS * SLOT_NBYTES)
                fds = (theirs.fileno(), memory)
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _START.format(path=sys.path, fds=f"{fds[0]}, {fds[1]}")],
                    pass_fds=fds,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            finally:
                os.close(memory)
        except BaseException:  # an interrupt too; a helper that was started ends with its socket
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours

    def is_ready(self) -> bool:
        """Whether the process is there and has imported what it needs.

        Raises
        ------
        HelperGoneError
            If it could not, or belongs to another user than this process does by now.
        """
        if self._owner != (os.geteuid(), os.getegid()):
            raise HelperGoneError
        if self.ready:
            self._receive(socket.MSG_DONTWAIT | socket.MSG_PEEK)  # is it still there?
        else:
            self.ready = self.answer(wait=False) is not None
        return self.ready

    def send(self, message: dict[str, Any]) -> None:
        """Tell it something.

        Raises
        ------
        HelperGoneError
            If it has ended.
        """
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as e:
            raise HelperGoneError from e

    def answer(self, *, wait: bool) -> bool | None:
        """Return whether it has done the oldest thing that it was asked for; None if that takes longer.

        Raises
        ------
        HelperGoneError
            If it has ended.
        """
        answer = self._receive(0 if wait else socket.MSG_DONTWAIT)
        return None if answer is None else answer == DONE

    def _receive(self, flags: int) -> bytes | None:
        try:
            answer = self._socket.recv(1, flags)
        except BlockingIOError:
            return None
        except OSError as e:
            raise HelperGoneError from e
        if not answer:
            raise HelperGoneError
        return answer

    def slot(self, number: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """Return the first bytes of a slot."""
        return np.frombuffer(self._memory, np.uint8, nbytes, number * SLOT_NBYTES)

    def close(self) -> None:
        """Let it end."""
        self._socket.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._socket.close()
        self._process.returncode = 0  # it is not a child of this process
