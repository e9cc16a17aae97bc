"""Number, rate and repetition of requests, with limits that the users of a context resource share.

``*_request_concurrency`` is a number of slots, ``*_request_retries`` a `Retries`, and
``experimental_*_rate_limiter`` a `Pace`.

A request that fails in a way that may pass is made again, as often and after such delays as the resource
says.  A server to which there is no connection at all, since it refuses, has no address or doesn't answer,
is given two seconds: it is more likely misspelt or down than busy.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from chunkwise.core.base.fork import new_lock, put_in_order_in_child

__all__ = [
    "ANSWER_TIMEOUT",
    "DEFAULT_CONCURRENCY",
    "Attempts",
    "Coalescing",
    "Limits",
    "Pace",
    "Retries",
    "Slots",
]

_LOG = logging.getLogger("chunkwise.retries")
_CONNECT_TIMEOUT = 4.0  # seconds; TCP asks again after 1 and 3 without an answer
_CONNECTION_PATIENCE = 2.0  # seconds, as docs/remote.md says
ANSWER_TIMEOUT = 900.0  # seconds that an answer may take in all, as docs/remote.md says
DEFAULT_CONCURRENCY = 32  # TensorStore's for requests to object stores
_MOST_SLOTS = 1 << 15  # a limit may be any 64-bit number; Linux has no more threads by default

T = TypeVar("T")


class Retries(NamedTuple):
    """Number of further attempts, after delays, in seconds, that double up to `max_delay`."""

    max_retries: int = 32  # this and the delays are TensorStore's
    initial_delay: float = 1.0
    max_delay: float = 32.0
    request_timeout: float = 60.0  # seconds that a server may be silent during a request

    @property
    def connect_timeout(self) -> float:
        """Seconds that connecting may take."""
        return min(_CONNECT_TIMEOUT, self.request_timeout)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failure of attempt number `attempt`, which counts from 0."""
        return min(self.max_delay, self.initial_delay * 2.0 ** min(attempt, 60))

    def config(self) -> dict[str, Any]:
        """Return the same for obstore."""
        # What obstore allows by itself, 180 s, for the requests; the delays, each with as much by chance.
        total = sum(self.delay(n) for n in range(min(self.max_retries, 1000)))
        return {
            "max_retries": self.max_retries,
            "retry_timeout": timedelta(seconds=180 + 2 * total),
            "backoff": {
                "init_backoff": timedelta(seconds=self.initial_delay),
                "max_backoff": timedelta(seconds=self.max_delay),
                "base": 2,
            },
        }


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


class Slots:
    """At most `limit` calls at a time, of requests or of work for a processor."""

    def __init__(self, limit: int = DEFAULT_CONCURRENCY) -> None:
        self.limit = limit
        self.after_fork()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Have all slots free."""
        # A slot that another thread had when the process was forked would never come back.
        # A queue, because threading's semaphores are written in Python and take ten times as long.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(min(self.limit, _MOST_SLOTS)):
            self._free.put(None)

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `work`, which has a slot while it runs."""
        free = self._free
        [_] = map(free.get, (True,))  # unpacked: see chunkwise.core.kvstore.file_protocol
        try:
            return work(*arguments)
        finally:
            free.put(None)

    def __reduce__(self) -> tuple[object, ...]:
        return Slots, (self.limit,)


class Pace:
    """Requests per second; the rate doubles every `doubling_time` seconds, and may be None for no limit."""

    def __init__(self, rate: float | None, doubling_time: float | None = None) -> None:
        self.rate = rate
        self.doubling_time = doubling_time
        self._lock = new_lock()
        self.after_fork()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Begin to count anew."""
        self._begin = self._next = 0.0

    def wait(self) -> None:
        """Wait until the next request may begin."""
        if self.rate is None:
            return
        with self._lock:
            now = time.monotonic()
            self._begin = self._begin or now
            doublings = (now - self._begin) / self.doubling_time if self.doubling_time else 0.0
            due = max(now, self._next)
            self._next = due + 1 / (self.rate * 2.0 ** min(doublings, 60))
        if due > now:
            time.sleep(due - now)

    def __reduce__(self) -> tuple[object, ...]:
        return Pace, (self.rate, self.doubling_time)


class Coalescing(NamedTuple):
    """Distance and size up to which byte ranges of one value share a request."""

    gap: int = 1 << 20  # largest hole, in bytes, that is read rather than skipped
    largest: int = 1 << 26  # size of a request, in bytes, beyond which nothing is joined to it


class Limits(NamedTuple):
    """Number, rate and repetition of requests."""

    slots: Slots
    retries: Retries = Retries()
    read_pace: Pace | None = None
    write_pace: Pace | None = None
    coalescing: Coalescing = Coalescing()
