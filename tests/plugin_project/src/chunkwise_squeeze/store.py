"""The kvstore ``sqlite``: keys and values in a table of an SQLite database."""

import sqlite3
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from chunkwise.extension import Buffer, KvStoreDriver, KvStoreSpec, Members, PluginStore, expect_string


def _key(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")  # bytes of file names that are no UTF-8 come back


class SqliteStore(PluginStore):
    """A database file, which any number of processes may use at once."""

    compares = True  # `put_if` is one transaction

    def __init__(self, path: str) -> None:
        self.path = str(Path(path).resolve())

    @property
    def identity(self) -> Hashable:
        return "sqlite", self.path

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE IF NOT EXISTS kv (key BLOB PRIMARY KEY, value BLOB)")
            yield connection
            connection.execute("COMMIT")

    def _rows(self, query: str, *values: object) -> list[Any]:
        if not Path(self.path).exists():
            return []
        with closing(sqlite3.connect(self.path, timeout=60)) as connection:
            return connection.execute(query, values).fetchall()

    def get(self, key: str) -> Buffer | None:
        rows = self._rows("SELECT value FROM kv WHERE key = ?", _key(key))
        return bytes(rows[0][0]) if rows else None

    def put(self, key: str, value: bytes) -> None:
        with self._changing() as connection:
            connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (_key(key), value))

    def remove(self, key: str) -> None:
        with self._changing() as connection:
            connection.execute("DELETE FROM kv WHERE key = ?", (_key(key),))

    def keys(self, prefix: str) -> Iterable[str]:
        start = _key(prefix)
        rows = self._rows("SELECT key FROM kv WHERE substr(key, 1, ?) = ?", len(start), start)
        return [bytes(row[0]).decode("utf-8", "surrogateescape") for row in rows]

    def put_if(self, key: str, value: bytes | None, generation: bytes) -> bool:
        with self._changing() as connection:
            rows = connection.execute("SELECT value FROM kv WHERE key = ?", (_key(key),)).fetchall()
            if self.generation_of(bytes(rows[0][0]) if rows else None) != generation:
                return False
            if value is None:
                connection.execute("DELETE FROM kv WHERE key = ?", (_key(key),))
            else:
                connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (_key(key), value))
        return True


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SqliteSpec(KvStoreSpec):
    """``{"driver": "sqlite", "file": "/data/a.db", "path": "group/array/"}``."""

    driver: ClassVar[str] = "sqlite"
    file: str

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        return {"file": members.take("file", expect_string)}

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        return {"file": self.file}

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        return SqliteStore(self.file), self.path
