"""Names of the staging places where new data is written before it replaces the old.

The place for ``a/b`` is ``a/.b.chunkwise-new``, or ``a/.b.chunkwise-new-<owner>`` for work that can't be
resumed; inside the old data it is ``.chunkwise-new`` and ``.chunkwise-new-<owner>``.  Listings of a tree
don't show them.  The owner is a process, so that leftovers of a killed one are recognised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache

from chunkwise.core.kvstore.files.platform import WINDOWS

__all__ = [
    "APPEND",
    "ASIDE",
    "COMPLETE",
    "JOURNAL",
    "REPLACED",
    "STAGED",
    "UNFINISHED",
    "give_up",
    "has_ended",
    "in_staging",
    "is_abandoned",
    "is_resumable",
    "is_staging",
    "new_owner",
    "process_has_ended",
    "staging_name",
    "staging_prefix",
    "unwritten",
    "upwards",
]

COMPLETE = ".chunkwise-complete"
"""Key, relative to a staging place, that marks the new data as complete while it replaces the old."""

REPLACED = ".chunkwise-replaced"
"""Key that marks old data, so that it isn't taken for new data when it has the name of the staging place."""

STAGED = ".chunkwise-staged"
"""Key that a staging place has from its beginning: where it is gone, others have moved or deleted data."""

ASIDE = "-old"
"""Ending of the temporary name of old data, if two directories can't be exchanged at once."""

APPEND = ".chunkwise-append.json"
"""Key, relative to an array, of the document that excludes other appends to it."""

JOURNAL = ".chunkwise-copy.json"
"""Key, relative to a node, that marks an unfinished copy to it."""

UNFINISHED = ".chunkwise-unfinished"
"""Key that marks a new HDMF store whose writing goes on or was interrupted."""

_NAME = r"(?s)\A(?:\..*)?\.chunkwise-new(?:-(?P<owner>\w+-[0-9]+-\w+))?(?:-old)?\Z"
_given_up: set[str] = set()  # owners that `new_owner` has named, whose tasks failed
_LONGEST = 100  # bytes of a name that are kept; file names have at most 255


def is_staging(name: str) -> bool:
    """Return True if a component of a path is the name of a staging place."""
    return ".chunkwise-new" in name and re.match(_NAME, name) is not None


def is_resumable(name: str) -> bool:
    """Return True for the name of a staging place where any process may go on with the work."""
    found = re.match(_NAME, name)
    return found is not None and found["owner"] is None


def in_staging(path: str) -> bool:
    """Return True if a path leads into a staging place."""
    return ".chunkwise-new" in path and any(map(is_staging, path.split("/")))


def staging_prefix(key: str, path: str) -> str | None:
    """Return the prefix of the outermost staging place below `path` with a key, None if there is none."""
    if ".chunkwise-new" not in key:
        return None
    above = path
    for name in key[len(path) :].split("/")[:-1]:
        above += name + "/"
        if is_staging(name):
            return above
    return None


def unwritten(path: str) -> Callable[[str], bool]:
    """Return a test for keys below `path` that no process is writing to replace a node, or holds."""

    def test(key: str) -> bool:
        if ".chunkwise" not in key:
            return True
        place = staging_prefix(key, path)
        if place is not None:
            return is_abandoned(place[:-1].rpartition("/")[2])
        return key.rpartition("/")[2] != APPEND

    return test


def upwards(path: str) -> Iterator[str]:
    """Yield `path` and the paths of the groups above."""
    yield path
    # New data in a staging place belongs to no group before it replaces the old.
    while path and not is_staging(path[:-1].rpartition("/")[2]):
        path = path[: path[:-1].rfind("/") + 1]
        yield path


def staging_name(name: str, owner: str = "") -> str:
    """Return the name of the staging place beside the node `name`, or inside the node if `name` is empty."""
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) > _LONGEST:
        from hashlib import blake2b  # loads OpenSSL

        name = raw[:40].decode("utf-8", "ignore") + blake2b(raw, digest_size=8).hexdigest()
    stem = f".{name}.chunkwise-new" if name else ".chunkwise-new"
    return f"{stem}-{owner}" if owner else stem


def new_owner() -> str:
    """Return a name for this process and one of its tasks."""
    return f"{_machine()}-{os.getpid()}-{os.urandom(6).hex()}"


def give_up(path: str) -> None:
    """Note that the task of this process to which a staging place belongs has ended, by an error."""
    found = re.match(_NAME, path.rstrip("/").rpartition("/")[2])
    if found is not None and found["owner"] is not None:
        _given_up.add(found["owner"])


def is_abandoned(name: str) -> bool:
    """Return True if the owner of a staging place was a task that has ended, here or in an ended process of
    this machine."""
    found = re.match(_NAME, name)
    owner = None if found is None else found["owner"]
    return owner is not None and (owner in _given_up or has_ended(owner))


def has_ended(owner: str) -> bool:
    """Return True if `new_owner` named a process of this machine that has certainly ended."""
    machine, pid, _ = (*owner.split("-"), "", "")[:3]
    return machine == _machine() and process_has_ended(pid)


def process_has_ended(pid: str) -> bool:
    """Return True if no process of this machine has a number any more."""
    if WINDOWS or not (pid.isascii() and pid.isdigit()):  # on Windows, asking would end the process
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return _is_zombie(pid)


def _is_zombie(pid: str) -> bool:
    """Return True for a process that has ended, and whose parent has not asked how."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


@cache
def _machine() -> str:
    """Return a name for the scope in which process numbers are unique: this boot and this container."""
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
    from hashlib import blake2b

    return blake2b("\n".join(parts).encode(), digest_size=4).hexdigest()
