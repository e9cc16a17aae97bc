"""What a helper process does: boxes of elements from files to shared memory, and back.

Messages are lines of JSON.  ``{"do": "array", ...}`` names an array and gets no answer; ``read`` and
``write`` name a box and a slot, ``chunks`` names keys and a slot; these are answered with a byte.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import socket
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.binding import Members
from chunkwise.driver.stored_array import StoredArray
from chunkwise.execute.helper.process import DONE, FAILED, N_SLOTS, SLOT_NBYTES
from chunkwise.execute.pool import Pool, work_here
from chunkwise.execute.read import read_into, read_packed
from chunkwise.execute.run_read import read_packed_keys
from chunkwise.execute.write import write_from, write_packed
from chunkwise.kvstore.file import FileStore
from chunkwise.plan.region import BoxTransform

__all__ = ["serve"]

_IDLE = 120.0  # seconds


def serve(socket_fd: int, memory_fd: int) -> None:
    """Answer messages until there are none for two minutes or the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides what an interrupt means
    work_here()
    memory = mmap.mmap(memory_fd, N_SLOTS * SLOT_NBYTES)
    os.close(memory_fd)
    with socket.socket(fileno=socket_fd) as connection:
        connection.settimeout(_IDLE)
        connection.sendall(DONE)
        array: _Array | None = None
        told = b""
        with connection.makefile("rb") as stream:
            while True:
                try:
                    line = stream.readline()
                except OSError:
                    return
                if not line:
                    return
                message = json.loads(line)
                if message["do"] == "array":
                    if line != told:
                        array, told = _open(message), line
                    continue
                done = array is not None and _act(array, message, memory)
                connection.sendall(DONE if done else FAILED)


class _Array:
    """An array as it lies in files."""

    def __init__(self, stored: StoredArray, store: FileStore, message: dict[str, Any]) -> None:
        self.stored = stored
        self.store = store
        self.pool = Pool(1)
        self.fill_missing: bool = message["fill_missing"]
        self.store_fill: bool = message["store_fill"]

    def act(self, message: dict[str, Any], memory: npt.NDArray[np.uint8]) -> None:
        """Read or write a box, or chunks that are named by their keys; elements or chunks are in `memory`."""
        stored, store = self.stored, self.store
        if message["do"] == "chunks":
            return read_packed_keys(stored, store, message["keys"], memory, fill_missing=self.fill_missing)
        shape = tuple(message["shape"])
        transform = BoxTransform(tuple(message["start"]), shape)
        elements = memory if message["packed"] else memory.view(stored.numpy_dtype).reshape(shape)
        if message["do"] == "write":
            fill = {"store_data_equal_to_fill_value": self.store_fill}
            if message["packed"]:
                write_packed(stored, store, transform, elements, **fill)
            else:
                write_from(stored, store, transform, elements, pool=self.pool, **fill).result()
        elif message["packed"]:
            read_packed(stored, store, transform, elements, fill_missing=self.fill_missing)
        else:
            done = read_into(
                stored, store, transform, elements, pool=self.pool, fill_missing=self.fill_missing
            )
            done.result()


def _open(message: dict[str, Any]) -> _Array | None:
    """Make the array that a message describes; None if that can't be done here."""
    try:
        module, _, name = message["format"].partition(":")
        format = getattr(import_module(module), name)()
        metadata = format.parse_metadata(message["document"])
        options = format.parse_options(Members({}))
        stored = format.stored_array(metadata, message["prefix"], options)
        store = FileStore(message["root"], **message["store"])
        if message["umask"] is not None:
            os.umask(message["umask"])
        return _Array(stored, store, message)
    except Exception:  # whatever it is, the other process meets it too, and says so
        return None


def _act(array: _Array, message: dict[str, Any], memory: mmap.mmap) -> bool:
    try:
        slot = np.frombuffer(memory, np.uint8, message["nbytes"], message["slot"] * SLOT_NBYTES)
        array.act(message, slot)
        return True
    except Exception:  # the other process does it again, and meets the error
        return False
