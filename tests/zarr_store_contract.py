"""zarr-python's own contract of stores, for ``chunkwise.zarr.Store`` on a kvstore."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from zarr.core.buffer import cpu
from zarr.core.sync import sync
from zarr.testing.store import StoreTests

import chunkwise as ts
from chunkwise.zarr import Store

__all__ = ["ZarrStoreContract"]


class ZarrStoreContract(StoreTests[Store, cpu.Buffer]):
    """The contract that zarr-python ships; the other way to the values is an open KvStore."""

    pytestmark = pytest.mark.anyio
    store_cls = Store
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    def kv(self, tmp_path: Path) -> ts.KvStore:
        raise NotImplementedError

    @pytest.fixture
    def store_kwargs(self, kv: ts.KvStore) -> dict[str, Any]:
        self.kv_store = kv
        return {"kvstore": kv}

    @pytest.fixture
    def store(self, open_kwargs: dict[str, Any]) -> Store:
        return sync(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs: dict[str, Any]) -> Store:
        return self.store_cls(**store_kwargs)

    async def set(self, store: Store, key: str, value: Any) -> None:
        self.kv_store[key] = value.to_bytes()

    async def get(self, store: Store, key: str) -> Any:
        return self.buffer_cls.from_bytes(self.kv_store[key])

    def test_store_repr(self, store: Store) -> None:
        assert repr(store) == f"chunkwise.zarr.Store({self.kv_store.url!r})"
        assert str(store) == self.kv_store.url

    def test_store_supports_writes(self, store: Store) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: Store) -> None:
        assert store.supports_listing
