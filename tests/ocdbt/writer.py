"""Writes to a database: ``writer.py add PATH N`` counts up N times, ``writer.py pairs PATH`` does not end."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore, Options
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.ocdbt.manifest import ConfigMembers


def open_database(path: str, **config: Any) -> OcdbtStore:
    """Return the database at `path`."""
    folder = Folder(FileStore(path, sync=False), "")
    return OcdbtStore(folder, folder, Options(ConfigMembers(config)))


def add(store: OcdbtStore, times: int) -> None:
    """Add one to the number under the key ``n``, and keep a key for each time."""
    for _ in range(times):
        done = None
        while done is None:
            value, generation, _ = store.read("n")
            n = 0 if value is None else int(bytes(value))
            done = store.write("n", b"%d" % (n + 1), if_equal=generation)
        store.write(f"log/{n}", bytes(150))


def write_pairs(store: OcdbtStore) -> None:
    """Write two keys at once, which always have the same value."""
    for i in count():
        value = b"%d" % i * 60
        assert store.write_all({"one": value, "two": value, f"old/{i % 9}": value}, conditions={}) is None
        if i == 0:
            print("ready", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "add":
        add(open_database(sys.argv[2]), int(sys.argv[3]))
    else:
        write_pairs(open_database(sys.argv[2]))
