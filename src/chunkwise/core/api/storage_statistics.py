"""``TensorStore.StorageStatistics``: how much of a region is stored."""

from __future__ import annotations

from typing import Any

from chunkwise.core.base.arguments import as_flag, check_same_type

__all__ = ["StorageStatistics"]


class StorageStatistics:
    """Storage of the chunks of a region; None for a query that was not requested.

    Parameters
    ----------
    not_stored : bool, optional
        True if no chunk that meets the region is stored.
    fully_stored : bool, optional
        True if every chunk that meets the region is stored.

    Examples
    --------
    >>> import chunkwise
    >>> spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    >>> array = chunkwise.open(spec, create=True, dtype="int32", shape=[4]).result()
    >>> array.storage_statistics(query_not_stored=True).result().not_stored
    True
    """

    __slots__ = ("__weakref__", "_fully_stored", "_not_stored")

    def __init__(self, *, not_stored: bool | None = None, fully_stored: bool | None = None) -> None:
        self.not_stored = not_stored
        self.fully_stored = fully_stored

    @property
    def not_stored(self) -> bool | None:
        """True if no chunk that meets the region is stored; can be set."""
        return self._not_stored

    @not_stored.setter
    def not_stored(self, value: bool | None) -> None:
        self._not_stored = None if value is None else as_flag(value, "not_stored")

    @property
    def fully_stored(self) -> bool | None:
        """True if every chunk that meets the region is stored; can be set."""
        return self._fully_stored

    @fully_stored.setter
    def fully_stored(self, value: bool | None) -> None:
        self._fully_stored = None if value is None else as_flag(value, "fully_stored")

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, StorageStatistics)
        return (self._not_stored, self._fully_stored) == (other._not_stored, other._fully_stored)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._not_stored, self._fully_stored)

    def __repr__(self) -> str:
        return (
            f"TensorStore.StorageStatistics(not_stored={self._not_stored}, fully_stored={self._fully_stored})"
        )


def _make(not_stored: bool | None, fully_stored: bool | None) -> StorageStatistics:
    return StorageStatistics(not_stored=not_stored, fully_stored=fully_stored)
