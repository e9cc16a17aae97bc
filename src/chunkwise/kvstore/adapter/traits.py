"""How a store likes to be used, told by an adapter of it as the store itself would tell it.

All are optional.  ``request_concurrency``: so many requests are kept under way, because each takes long.
``write_concurrency``: the same of writes only.  ``coalescing``: which byte ranges of one value share a
request.  ``conditional_deletes``: False if another writer can come in between.
``keeps_conditions(key)``: False if that is so for all conditional writes.  ``remembered``: room for what
its users have learned of its values.  ``holds(key)``: whether reading a value needs no request.
"""

from __future__ import annotations

from typing import Any

from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["BaseTraits"]


class BaseTraits:
    """An adapter of one store, `base`."""

    base: KvStoreDriver

    @property
    def request_concurrency(self) -> int | None:
        """That of the base."""
        found: int | None = getattr(self.base, "request_concurrency", None)
        return found

    @property
    def write_concurrency(self) -> int | None:
        """That of the base."""
        found: int | None = getattr(self.base, "write_concurrency", None)
        return found

    @property
    def coalescing(self) -> Any:
        """That of the base."""
        return getattr(self.base, "coalescing", None)

    def keeps_conditions(self, key: str) -> bool:
        """Whether the base promises that no change of a part of `key` is lost."""
        promised = getattr(self.base, "keeps_conditions", None)
        return promised is None or bool(promised(key))

    def holds(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        """Whether a reader would get these bytes of `key` without a request, as far as the base knows."""
        known = getattr(self.base, "holds", None)
        return known is not None and bool(known(key, start, stop))

    @property
    def conditional_deletes(self) -> bool:
        """Whether the base promises them."""
        return bool(getattr(self.base, "conditional_deletes", True))
