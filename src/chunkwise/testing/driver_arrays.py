"""Arrays for the suite of a driver, and places to keep them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import chunkwise as ts

__all__ = ["DriverArrays", "Place"]


@dataclass
class Place:
    """Somewhere to keep arrays; each name is another array.

    Attributes
    ----------
    root : str
        URL that ends in ``/``.
    context : Context
        Owner of memory stores.
    """

    root: str
    context: ts.Context
    n: int = 0

    def new(self) -> str:
        """Return the URL of an array that doesn't exist yet."""
        self.n += 1
        return f"{self.root}{self.n}/"

    def keys(self, url: str) -> list[str]:
        """Return the keys of the array at `url`, sorted."""
        store = ts.KvStore.open(url, context=self.context).result()
        return sorted(key.decode() if isinstance(key, bytes) else key for key in store.list().result())


class DriverArrays:
    """Arrays of one driver; a subclass describes its format.

    Attributes
    ----------
    driver : str
        Driver id.
    metadata_name : str
        Key of the metadata document, relative to the array.
    companions : tuple of str
        Further keys that a new array has.
    metadata : dict
        Members of ``metadata`` that each new array gets.
    dtypes : tuple of str
    fill_value : int or None
        The fill value of new arrays; None if the format has none, and missing chunks read as zero.
    max_rank : int
    shard : int or None
        If given, each write chunk is so many read chunks wide.
    conditional_deletes : bool
        Whether the store supports conditional deletes; if not, a chunk that a partial write makes equal to
        the fill value stays stored.
    """

    driver: ClassVar[str]
    metadata_name: ClassVar[str]
    companions: ClassVar[tuple[str, ...]] = ()
    metadata: ClassVar[dict[str, Any]] = {}
    dtypes: ClassVar[tuple[str, ...]] = ("uint8", "int16", "uint32", "float64")
    fill_value: ClassVar[int | None] = 7
    max_rank: ClassVar[int] = 5
    shard: ClassVar[int | None] = None
    conditional_deletes: ClassVar[bool] = True

    @pytest.fixture(params=["memory", "file"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
        """A fixture: the place of the arrays of a test."""
        root = "memory://" if request.param == "memory" else f"file://{tmp_path}/"
        # No fsync: these tests don't cut the power.
        return Place(root, ts.Context({"file_io_sync": False}))

    def spec(self, url: str, **members: Any) -> dict[str, Any]:
        """Return a spec of the array at `url`."""
        return {"driver": self.driver, "kvstore": url, **members}

    def create(
        self,
        place: Place,
        url: str,
        shape: tuple[int, ...],
        chunks: tuple[int, ...],
        dtype: str = "uint16",
        **members: Any,
    ) -> ts.TensorStore:
        """Create an array of the kind that this suite is about."""
        layout: dict[str, Any] = {"chunk": {"shape": list(chunks)}}
        if self.shard is not None:
            layout = {
                "read_chunk": {"shape": list(chunks)},
                "write_chunk": {"shape": [n * self.shard for n in chunks]},
            }
        fill = {} if self.fill_value is None else {"fill_value": self.fill_value}
        spec = self.spec(
            url, metadata=dict(self.metadata), schema={"chunk_layout": layout, **fill}, **members
        )
        return ts.open(spec, create=True, dtype=dtype, shape=shape, context=place.context).result()

    def reopen(self, place: Place, url: str, **members: Any) -> ts.TensorStore:
        """Open an existing array."""
        return ts.open(self.spec(url, **members), context=place.context).result()

    def stored_chunk(self, chunks: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the object stored under one key."""
        return tuple(n * (self.shard or 1) for n in chunks)

    def chunk_keys(self, place: Place, url: str) -> list[str]:
        """Return the keys of the stored chunks."""
        return [key for key in place.keys(url) if key not in (self.metadata_name, *self.companions)]
