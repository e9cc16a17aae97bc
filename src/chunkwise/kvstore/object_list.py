"""A listing, page by page.

obstore asks when a page is taken, and what has failed once looks as if it had ended there.  So after a
failure the listing is begun anew behind the last key, if asking again may help; else every call fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chunkwise.kvstore.object_failure import failure_of

__all__ = ["Pages"]

_PAGE = 1000


class Pages:
    """Requests for the pages of one listing, one at a call.

    Parameters
    ----------
    prefix : str
        Directory whose keys are listed; empty for all.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._stream: Iterator[Sequence[Any]] = iter(())
        self._last: str | None = None
        self._begun = False
        self._failure: Exception | None = None

    def __call__(self, library: Any, store: Any) -> Sequence[Any] | None:
        """Return the next page, None after the last one."""
        if not self._begun or self._failure is not None:
            if self._begun and self._failure is not None and failure_of(self._failure).again == "never":
                raise self._failure
            prefix = self._prefix.rstrip("/") or None
            self._stream = library.list(store, prefix=prefix, offset=self._last, chunk_size=_PAGE)
        try:
            page = next(self._stream, None)
        except Exception as e:
            self._failure = e
            raise
        self._begun, self._failure = True, None
        if page and isinstance(page[-1], Mapping):
            self._last = page[-1]["path"]
        return page
