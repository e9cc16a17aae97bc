"""The memory store: the contract, and what is its own."""

import pytest

from chunkwise.core.kvstore.libraries.mapping import MappingStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestMemoryStore(KvStoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()


class TestMapping(KvStoreContract):
    generations_of_content = True

    @pytest.fixture
    def store(self):
        return MappingStore({})


@pytest.mark.parametrize("key", ["", "/", "a//b", "..", "a/", "nul\0", "x.__lock"])
def test_any_text_is_a_key(key):
    store = MemoryStore()
    store.write(key, b"v")
    assert store.open_reader()(key) == b"v"
    assert list(store.list()) == [key]


def test_generations_are_tensorstores():
    store = MemoryStore()
    assert store.write("a", b"1") == bytes(9)
    assert store.write("a", b"1") == b"\0\1" + bytes(7)


def test_two_stores_are_two_storages():
    assert MemoryStore().identity != MemoryStore().identity


def test_keys_are_listed_in_the_order_of_their_bytes():
    store = MemoryStore()
    for key in ("\ue000", "\udc80", "z", "a"):
        store.write(key, b"")
    assert list(store.list()) == ["a", "z", "\udc80", "\ue000"]
