"""Names of the places where new data is written before it takes the place of the old.

The place for ``a/b`` is ``a/.b.chunkwise-new``, or ``a/.b.chunkwise-new-<owner>`` for a writer that nobody
goes on with; inside the old data it is ``.chunkwise-new`` and ``.chunkwise-new-<owner>``.  No listing of a
tree shows them.  The owner is a process, so that what a killed one leaves is recognised.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache

from chunkwise.core.kvstore.platform import WINDOWS

__all__ = [
    "ASIDE",
    "COMPLETE",
    "JOURNAL",
    "in_staging",
    "is_abandoned",
    "is_staging",
    "new_owner",
    "staging_name",
]

COMPLETE = ".chunkwise-complete"
"""Key, relative to a place, that says that all of the new data is there, while it takes its place."""

ASIDE = "-old"
"""Ending of the name that old data has for a moment where two directories can't be exchanged at once."""

JOURNAL = ".chunkwise-copy.json"
"""Key, relative to a node, that says that a copy to it was begun and not finished."""

_NAME = re.compile(r"\A(?:\..*)?\.chunkwise-new(?:-(?P<owner>\w+-[0-9]+-\w+))?(?:-old)?\Z", re.DOTALL)
_LONGEST = 100  # bytes of a name that is kept; the names of files have 255


def is_staging(name: str) -> bool:
    """Return True if a component of a path is the name of such a place."""
    return ".chunkwise-new" in name and _NAME.match(name) is not None


def in_staging(path: str) -> bool:
    """Return True if a path leads into such a place."""
    return ".chunkwise-new" in path and any(map(is_staging, path.split("/")))


def staging_name(name: str, owner: str = "") -> str:
    """Return the name of the place beside the node `name`; inside it, if `name` is empty."""
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) > _LONGEST:
        name = raw[:40].decode("utf-8", "ignore") + hashlib.blake2b(raw, digest_size=8).hexdigest()
    stem = f".{name}.chunkwise-new" if name else ".chunkwise-new"
    return f"{stem}-{owner}" if owner else stem


def new_owner() -> str:
    """Return a name of this process and of one thing that it does."""
    return f"{_machine()}-{os.getpid()}-{os.urandom(6).hex()}"


def is_abandoned(name: str) -> bool:
    """Return True if the owner of a place was a process of this machine that has ended."""
    found = _NAME.match(name)
    if found is None or found["owner"] is None or WINDOWS:  # where a look would end the process
        return False
    machine, pid, _ = found["owner"].split("-")
    if machine != _machine():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@cache
def _machine() -> str:
    """Return a name of what numbers of processes are unique in: this boot of it, and this container."""
    parts = []
    for path in ("/proc/sys/kernel/random/boot_id", "/etc/hostname"):
        try:
            with open(path) as file:
                parts.append(file.read())
        except OSError:
            parts.append("")
    try:
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        parts.append(os.uname().nodename if hasattr(os, "uname") else "")
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=4).hexdigest()
