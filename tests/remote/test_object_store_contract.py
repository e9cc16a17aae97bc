"""The contract of kvstores, on object stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots
from chunkwise.testing.kvstore_contract import KvStoreContract

REFUSED = ("q\n", "z\udcff")


class TestS3(KvStoreContract):
    """A bucket of moto, whose ETags come from the content."""

    generations_of_content = True
    refused_keys = REFUSED

    @pytest.fixture
    def store(self, s3: ObjectStore) -> ObjectStore:
        return s3


class TestAzure(KvStoreContract):
    """A container of azurite, which has no ranges that count from the end."""

    refused_keys = (*REFUSED, "a\\b")

    @pytest.fixture
    def store(self, azure: ObjectStore) -> ObjectStore:
        return azure


@pytest.mark.slow
class TestCeph(KvStoreContract):
    """A bucket of Ceph's gateway, which knows ETags only without quotation marks."""

    generations_of_content = True
    refused_keys = REFUSED

    @pytest.fixture
    def store(self, rgw: ObjectStore) -> ObjectStore:
        return rgw


class TestGoogle(KvStoreContract):
    """The XML answers of Google Cloud Storage, whose conditions go by the generation; three keys a page."""

    refused_keys = REFUSED

    @pytest.fixture
    def store(self, run_server: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", run_server("gcs_server.py"))
        return ObjectStore(GcsBucket("bucket"), Limits(Slots(), Retries(3, 0.05, 0.2)))


class TestMemoryOfObstore(KvStoreContract):
    """obstore's own store in memory, which keeps the caller's buffers."""

    refused_keys = REFUSED

    @pytest.fixture
    def store(self) -> ObjectStore:
        return ObjectStore(ForeignBucket(obstore.store.MemoryStore()))


class TestDirectoryOfObstore(KvStoreContract):
    """obstore's own store of files, which has no conditional writes."""

    refused_keys = REFUSED
    conditional_writes_race = True

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return ObjectStore(ForeignBucket(obstore.store.LocalStore(str(tmp_path))), single_writer=True)
