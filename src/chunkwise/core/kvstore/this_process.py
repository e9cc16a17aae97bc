"""Naming the process that holds an object in memory, so that its pickle can't be used in another."""

from __future__ import annotations

import os
from typing import NamedTuple

from chunkwise.errors import FailedPreconditionError

__all__ = ["ProcessName", "check_process", "process_name"]

_started = os.urandom(16).hex()


class ProcessName(NamedTuple):
    """Identifies a process on any machine; a forked one has its parent's `started`, but its own `pid`."""

    host: str
    pid: int
    started: str


def process_name() -> ProcessName:
    """Return the name of this process."""
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return ProcessName(host, os.getpid(), _started)


def check_process(pickled: ProcessName, what: str) -> None:
    """Raise FailedPreconditionError unless `what` was pickled in this process."""
    here = process_name()
    if pickled != here:
        raise FailedPreconditionError(
            f"{what} is in the memory of process {pickled.pid} on {pickled.host} and can't be used in "
            f"process {here.pid} on {here.host}: keep the array in files or in an object store, "
            "or send its values with chunkwise.array(values)"
        )
