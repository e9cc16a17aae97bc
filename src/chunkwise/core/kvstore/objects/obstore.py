"""The library obstore: loaded when the first bucket is opened, and stores that the caller made with it.

obstore runs its requests on its own threads.  A forked process lacks these, so a request there would wait for
ever.  The library is therefore loaded a second time in a fork, which starts new threads.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Hashable, Mapping
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import parent_process
from types import ModuleType
from typing import TYPE_CHECKING, Any

from chunkwise.core.base.extras import needs
from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.objects.bucket import Access, Bucket
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.this_process import held_by
from chunkwise.core.kvstore.web.request import is_public_header
from chunkwise.errors import UnsupportedError

if TYPE_CHECKING:
    import obstore.store

__all__ = ["ForeignBucket", "is_obstore", "object_library"]

_lock = new_lock()
# The process in which the imported library was first used.
_owner: list[int] = []


def object_library() -> ModuleType:
    """Return obstore's extension module for this process; raise UnsupportedError if not installed."""
    with _lock:
        return _library(os.getpid())


@cache
def _library(pid: int) -> ModuleType:
    before = "obstore._obstore" in sys.modules
    try:
        from obstore import _obstore
    except ImportError as e:
        raise UnsupportedError(needs("an object store", "obstore")) from e
    module: ModuleType = _obstore
    if not _owner and not (before and parent_process() is not None):  # otherwise other code may have used it
        _owner.append(pid)
    return module if _owner == [pid] else _second_copy(module)


def _second_copy(module: ModuleType) -> ModuleType:
    """Load the extension again from a copy of its file, since the loader knows the original."""
    assert module.__file__ is not None
    with open(module.__file__, "rb") as original:
        if hasattr(os, "memfd_create"):
            number = os.memfd_create("obstore")
            os.sendfile(number, original.fileno(), 0, os.fstat(original.fileno()).st_size)
            path = f"/proc/self/fd/{number}"
        else:
            number, path = tempfile.mkstemp(suffix=os.path.basename(module.__file__))
            with open(number, "wb", closefd=False) as copy:
                copy.write(original.read())
    try:
        loader = ExtensionFileLoader(module.__name__, path)
        spec = spec_from_file_location(module.__name__, path, loader=loader)
        assert spec is not None
        again = module_from_spec(spec)
        loader.exec_module(again)
        return again
    finally:
        os.close(number)
        if not path.startswith("/proc/"):
            os.unlink(path)


_SECRETS = ("key", "secret", "token", "password", "credential", "sas", "authorization", "account_key")
_COPYING = ("S3Store", "GCSStore", "AzureStore", "HTTPStore", "LocalStore")
_NAMES = ("bucket", "container_name", "url", "endpoint", "account_name", "region", "base_url")


def is_obstore(value: object) -> bool:
    """Return True if `value` is a store of obstore."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "obstore" and kind.__name__.endswith("Store")


class ForeignBucket(Bucket):
    """The bucket of an obstore store; its credentials are left out of pickles."""

    retries_itself = True
    over_obstore = True
    lists_in_order = False  # not known for every store that a caller can make

    def __init__(self, store: obstore.store.ObjectStore) -> None:
        self.store = store
        self.kind = type(store).__name__
        self.keeps_buffers = self.kind not in _COPYING
        self.suffix_ranges = self.kind != "AzureStore"
        self.by_version = self.kind == "GCSStore"
        self._pid = os.getpid()
        self._held = held_by(store)

    @property
    def identity(self) -> Hashable:
        """The bucket and the server, or the object itself."""
        config = self._public()
        if self.kind == "MemoryStore":
            return "obstore", self._held.name
        return "obstore", self.kind, tuple(sorted(config.items())), str(getattr(self.store, "prefix", None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ForeignBucket) and other.store is self.store

    def __hash__(self) -> int:
        return id(self.store)

    def _public(self) -> dict[str, str]:
        out = {str(k): str(v) for k, v in _mapping(self.store, "config").items() if k in _NAMES}
        url = getattr(self.store, "url", None)
        return {**out, "url": str(url)} if url is not None else out

    def url(self, key: str) -> str:
        """Return the kind, the bucket and the key."""
        config = self._public()
        place = next((config[name] for name in _NAMES if name in config), "")
        prefix = getattr(self.store, "prefix", None)
        return "/".join(str(part).strip("/") for part in (self.kind, place, prefix or "", key) if part)

    def accesses(self) -> tuple[Access, ...]:
        """Return the only access: the store's own."""
        return (Access(True),)

    def connect(self, library: ModuleType, access: Access, retries: Retries) -> obstore.store.ObjectStore:
        """Return the store itself, or in a forked process an equal one."""
        if os.getpid() == self._pid:
            return self.store
        return _rebuilt(library, self.kind, self._state(secrets=True))

    def advice(self, failure: Failure) -> str:
        """Say that the caller made the store."""
        return f"the {self.kind} was made by the caller" if failure.is_refusal else ""

    def _state(self, *, secrets: bool) -> dict[str, Any]:
        def kept(options: Mapping[str, Any]) -> dict[str, Any]:
            return {k: v for k, v in options.items() if secrets or not any(s in str(k) for s in _SECRETS)}

        state: dict[str, Any] = {
            "url": getattr(self.store, "url", None),
            "prefix": getattr(self.store, "prefix", None),
            "config": kept(_mapping(self.store, "config")),
            "client_options": kept(_mapping(self.store, "client_options")),
            "retry_config": getattr(self.store, "retry_config", None),
        }
        if secrets:
            state["credential_provider"] = getattr(self.store, "credential_provider", None)
        headers = state["client_options"].get("default_headers")
        if headers and not secrets:
            state["client_options"]["default_headers"] = {
                name: value for name, value in headers.items() if is_public_header(str(name))
            }
        return state

    def __reduce__(self) -> tuple[object, ...]:
        if self.kind == "LocalStore":
            return ForeignBucket, (self.store,)
        return _unpickle, (self.kind, self._state(secrets=False))


def _mapping(store: obstore.store.ObjectStore, name: str) -> Mapping[str, Any]:
    found = getattr(store, name, None)
    return found if isinstance(found, Mapping) else {}


def _rebuilt(library: ModuleType, kind: str, state: Mapping[str, Any]) -> Any:
    cls = getattr(library._store, kind, None)
    if cls is None or kind in ("MemoryStore", "LocalStore"):
        raise UnsupportedError(f"obstore's {kind} can't be used in a forked process")
    left_out = ("config", "prefix") if kind == "HTTPStore" else ("url",)
    return cls(**{name: value for name, value in state.items() if value and name not in left_out})


def _unpickle(kind: str, state: Mapping[str, Any]) -> ForeignBucket:

    return ForeignBucket(_rebuilt(object_library(), kind, state))
