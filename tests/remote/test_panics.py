"""What a library raises that is no `Exception`: an error of chunkwise, in every store that it implements."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fsspec
import obstore.store
import pytest
import zarr.storage

from chunkwise import errors
from chunkwise.core.kvstore.libraries.fsspec import FsspecStore
from chunkwise.core.kvstore.libraries.zarr_python import ZarrPythonStore
from chunkwise.core.kvstore.objects import connection as object_connection
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots


class PanicException(BaseException):
    """As libraries in Rust raise it."""


REQUESTS: dict[str, Callable[[Any], object]] = {
    "read": lambda store: store.read("a/k"),
    "part": lambda store: store.read("a/k", byte_range=ByteRange(1, 3)),
    "last bytes": lambda store: store.read("a/k", byte_range=ByteRange(-2, None)),
    "size": lambda store: store.read("a/k", byte_range=ByteRange(1, 1)),
    "reader": lambda store: store.open_reader()("a/k"),
    "ranges": lambda store: store.read_ranges("a/k", [0, 4], [2, 6]),
    "write": lambda store: store.write("a/k", b"v"),
    "create": lambda store: store.write("a/k", b"v", if_equal=MISSING_GENERATION),
    "delete": lambda store: store.delete("a/k"),
    "delete many": lambda store: store.delete_range("a/", "a0"),
    "list": lambda store: list(store.list("a/", "a0")),
    "children": lambda store: store.list_children("a/"),
}


def _obstore(error: BaseException, patch: pytest.MonkeyPatch) -> Any:
    names = ("get", "get_range", "get_ranges", "head", "put", "delete", "list", "list_with_delimiter")

    def fail(*_: object, **__: object) -> None:
        raise error

    library = SimpleNamespace(**dict.fromkeys(names, fail))
    patch.setattr(object_connection, "object_library", lambda: library)
    bucket = ForeignBucket(obstore.store.MemoryStore())
    return ObjectStore(bucket, Limits(Slots(), Retries(1, 0.001, 0.001)))


def _fsspec(error: BaseException, patch: pytest.MonkeyPatch) -> Any:
    class Files(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "panics"
        cachable = False

        def info(self, *_: Any, **__: Any) -> Any:
            raise error

        cat_file = pipe_file = rm_file = ls = find = info

    return FsspecStore(Files(), "root/", single_writer=True)


def _zarr_python(error: BaseException, patch: pytest.MonkeyPatch) -> Any:
    store = zarr.storage.ObjectStore(obstore.store.MemoryStore())

    async def fail(*_: object, **__: object) -> None:
        raise error

    async def listed(*_: object, **__: object) -> Any:
        raise error
        yield

    for name in ("get", "set", "delete", "exists", "is_empty"):
        patch.setattr(store, name, fail)
    for name in ("list", "list_prefix", "list_dir"):
        patch.setattr(store, name, listed)
    return ZarrPythonStore(store)


STORES = {"obstore": _obstore, "fsspec": _fsspec, "zarr-python": _zarr_python}


@pytest.mark.parametrize("kind", [PanicException, CancelledError])
@pytest.mark.parametrize("name", STORES)
def test_panics(name: str, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    store = STORES[name](kind("at the disco"), monkeypatch)
    wrong = []
    for request, ask in REQUESTS.items():
        try:
            wrong.append(f"{request}: {ask(store)}")
        except errors.ChunkwiseError as e:
            if "at the disco" not in str(e) and kind.__name__ not in str(e):
                wrong.append(f"{request}: {e}")
        except BaseException as e:
            wrong.append(f"{request}: raw {e!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["obstore", "fsspec"])
def test_interrupts_stay_interrupts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = STORES[name](KeyboardInterrupt(), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        store.read("a/k")
