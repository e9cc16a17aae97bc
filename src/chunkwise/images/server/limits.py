"""Limits on requests that are answered at a time, and on the memory they take together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Limits", "TooBusyError", "TooMuchError"]


class TooBusyError(Exception):
    """More requests wait than are let in."""


class TooMuchError(Exception):
    """One request needs more memory than there is for all."""


class Limits:
    """The requests under way and the memory that they take.

    Parameters
    ----------
    max_requests : int
        How many are answered at a time.
    max_waiting : int
        How many wait for that; more are refused.
    max_nbytes : int
        Memory of all that are answered at a time.
    """

    def __init__(self, max_requests: int, max_waiting: int, max_nbytes: int) -> None:
        self.max_requests = max_requests
        self.max_waiting = max_waiting
        self.max_nbytes = max_nbytes
        self._n = self._n_waiting = self._nbytes = 0
        self._changed: asyncio.Condition | None = None  # of the loop that the first request comes on

    @asynccontextmanager
    async def work(self, nbytes: int) -> AsyncIterator[None]:
        """Wait until one more request that takes `nbytes` can be answered, and count it meanwhile.

        Raises
        ------
        TooMuchError, TooBusyError
            If it never can, or too many wait already.
        """
        if nbytes > self.max_nbytes:
            raise TooMuchError(f"it takes {nbytes:,} bytes of memory; all requests have {self.max_nbytes:,}")
        changed = self._changed = self._changed or asyncio.Condition()
        if not self._fits(nbytes):
            if self._n_waiting >= self.max_waiting:
                raise TooBusyError(f"{self._n_waiting} requests wait already")
            self._n_waiting += 1
            try:
                async with changed:
                    await changed.wait_for(lambda: self._fits(nbytes))
            finally:
                self._n_waiting -= 1
        self._n += 1
        self._nbytes += nbytes
        try:
            yield
        finally:
            self._n -= 1
            self._nbytes -= nbytes
            if self._n_waiting:
                async with changed:
                    changed.notify_all()

    def _fits(self, nbytes: int) -> bool:
        return self._n < self.max_requests and self._nbytes + nbytes <= self.max_nbytes
