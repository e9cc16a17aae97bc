"""A store in memory that refers to the caller's memory, for a write whose source never changes again."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from chunkwise.kvstore.memory import MemoryStore
from chunkwise.kvstore.protocol import Buffer, KvStoreDriver

__all__ = ["referencing"]


def referencing(kv: KvStoreDriver, source: npt.NDArray[Any]) -> KvStoreDriver | None:
    """Return `kv` as a store that doesn't copy values that lie in `source`; None if it always has to copy."""
    # What is encoded without being changed, as chunks of raw elements are, lies in `source`.
    return cast(KvStoreDriver, _Referencing(kv, source)) if isinstance(kv, MemoryStore) else None


class _Referencing:
    def __init__(self, kv: MemoryStore, source: npt.NDArray[Any]) -> None:
        self._kv = kv
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kv, name)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        if not if_equal and np.may_share_memory(np.frombuffer(value, np.uint8), self._source):
            return self._kv.write(key, value, copy=False)
        return self._kv.write(key, value, if_equal=if_equal)
