"""Attempts at one request, as long as another may help.

A request that fails in a way that may pass is made again, as often and after such delays as the resource
says.  A server to which there is no connection at all, since it refuses, has no address or doesn't answer,
is given two seconds: it is more likely misspelt or down than busy.
"""

from __future__ import annotations

import logging
import time

from chunkwise.kvstore.request_limits import Retries

__all__ = ["Attempts"]

_LOG = logging.getLogger("chunkwise.retries")
_CONNECTION_PATIENCE = 2.0  # seconds, as docs/remote.md says


class Attempts:
    """Count of the attempts of one request."""

    def __init__(self, retries: Retries, what: str) -> None:
        self._retries = retries
        self._what = what  # such as ``read s3://bucket/key``; for the log
        self.failed = 0  # attempts that have failed
        self._unconnected_since: float | None = None
        self._begin = time.monotonic()

    def again(self, why: str, *, connected: bool = True, at_least: float = 0.0) -> bool:
        """Wait before the next attempt and return True, or return False if there is to be none."""
        # `why` is the last failure, `connected` says if there was a connection, `at_least` is the server's
        # wish.
        retries, now = self._retries, time.monotonic()
        delay = max(retries.delay(self.failed), at_least)
        self.failed += 1
        if self.failed > retries.max_retries:
            return False
        if connected:
            self._unconnected_since = None
        else:
            since = self._begin if self._unconnected_since is None else self._unconnected_since
            self._unconnected_since = since
            left = since + _CONNECTION_PATIENCE - now
            if left <= 0:
                return False
            delay = min(delay, left)
        _LOG.info(
            "could not %s: %s; attempt %d of %d in %.3g s",
            self._what,
            why,
            self.failed + 1,
            retries.max_retries + 1,
            delay,
        )
        time.sleep(delay)
        self._begin = time.monotonic()
        return True
