"""Holding the lock of a key as another writer does."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path


def hold(path: Path | str, locking: str = "os") -> int:
    """Lock the key whose file is ``path``; closing the descriptor that is returned lets it go."""
    exclusive = os.O_EXCL if locking == "lockfile" else 0
    fd = os.open(f"{path}.__lock", os.O_WRONLY | os.O_CREAT | exclusive, 0o666)
    if locking == "os" and hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    elif locking == "os":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd
