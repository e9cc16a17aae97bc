"""A listing, page by page.

obstore asks when a page is taken, and what has failed once looks as if it had ended there.  So the listing
is begun anew when its first page is asked for in another way, and no page is asked for after a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
        self._begun = False
        self._failure: Exception | None = None

    def __call__(self, library: Any, store: Any) -> Sequence[Any] | None:
        """Return the next page, None after the last one."""
        if not self._begun:
            self._stream = library.list(store, prefix=self._prefix.rstrip("/") or None, chunk_size=_PAGE)
        elif self._failure is not None:
            raise self._failure
        try:
            page = next(self._stream, None)
        except Exception as e:
            self._failure = e
            raise
        self._begun, self._failure = True, None
        return page
