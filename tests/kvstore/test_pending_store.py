"""A store inside a transaction is a store: the contract holds for what is pending."""

import math
import pickle

import pytest

from chunkwise.core.api.transaction import Transaction, overlay
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestPendingStore(KvStoreContract):
    """The exceptions are those that TensorStore makes: conditions on what is stored are looked at later."""

    @pytest.fixture
    def store(self):
        self.transaction = Transaction()
        return overlay(self.transaction, MemoryStore())

    def test_generations(self, store):
        """What is pending is current until the end of time."""
        generations = {store.write("k", b"same") for _ in range(30)}
        assert len(generations) == 30
        assert store.read("k").generation in generations
        assert store.read("k").time == math.inf

    def test_conditional_write(self, store):
        """A condition on what the transaction has changed holds or not at once, others at the commit."""
        first = store.write("d/k", b"1", if_equal=MISSING_GENERATION)
        assert store.write("d/k", b"2", if_equal=MISSING_GENERATION) is None
        assert store.write("d/k", b"2", if_equal=b"foreign") is None
        assert store.write("d/k", b"2", if_equal=first) is not None
        assert store.write("d/none", b"3", if_equal=first) is not None
        with pytest.raises(ValueError, match='Error writing "d/none": Generation mismatch'):
            self.transaction.commit_sync()
        assert store.base.read("d/k").value is None  # nor is anything else changed

    def test_conditional_delete(self, store):
        """As for writes."""
        first = store.write("k", b"1")
        assert store.delete("k", if_equal=b"foreign") is None
        assert store.delete("k", if_equal=first) == MISSING_GENERATION
        assert store.delete("k", if_equal=first) is None
        assert store.read("k").value is None

    def test_pickle_and_identity(self, store):
        """A store in a transaction is equal to no other, and can't be pickled."""
        assert store.identity == store.identity
        assert store.identity != overlay(Transaction(), store.base).identity
        assert overlay(self.transaction, store.base) is store
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            pickle.dumps(store)


@pytest.mark.parametrize("key", ["stored", "changed", "modified"])
def test_every_way_of_reading_a_part(key):
    base = MemoryStore()
    for name in ("stored", "changed", "modified"):
        base.write(name, b"0123456789")
    transaction = Transaction()  # dropping it would abort
    inside = overlay(transaction, base)
    inside.write("changed", b"abcdefghij")
    inside.modify("modified", lambda old: bytes(old).replace(b"0", b"x"))
    whole = inside.read(key).value
    assert whole[:1] == {"stored": b"0", "changed": b"a", "modified": b"x"}[key]
    assert inside.read(key, byte_range=ByteRange(-3)).value == whole[-3:]
    assert bytes(inside.open_reader()(key, 2, 5)) == whole[2:5]
    assert [bytes(part) for part in inside.read_ranges(key, [0, 4, 9], [2, 4, 10])] == [
        whole[:2],
        b"",
        whole[9:],
    ]
    assert inside.read_ranges("missing", [0], [1]) is None
    with pytest.raises(ValueError, match="OUT_OF_RANGE"):
        inside.read_ranges(key, [0], [11])
