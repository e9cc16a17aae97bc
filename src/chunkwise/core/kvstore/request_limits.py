"""Number, rate and repetition of requests, within limits that all users of a context resource share.

``*_request_concurrency`` is a number of slots, ``*_request_retries`` a `Retries`, and
``experimental_*_rate_limiter`` a `Pace`.

After a failure that may be temporary, a request is repeated, with the number and delays of the resource.  If
there is no connection at all, because the server refuses, has no address or doesn't answer, the limit is two
seconds: the name is more likely misspelt, or the server down, than busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from chunkwise.core.base.threads import new_lock, put_in_order_in_child

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

_CONNECT_TIMEOUT = 4.0  # seconds; TCP retries after 1 and 3
_CONNECTION_PATIENCE = 2.0  # seconds, see docs/remote.md
ANSWER_TIMEOUT = 900.0  # seconds for a whole answer, see docs/remote.md
DEFAULT_CONCURRENCY = 32  # TensorStore's for requests to object stores
_MOST_SLOTS = 1 << 15  # a limit may be any 64-bit number; Linux allows no more threads by default

T = TypeVar("T")


class Retries(NamedTuple):
    """Number of further attempts, after delays, in seconds, that double up to `max_delay`."""

    max_retries: int = 32  # like the delays, TensorStore's default
    initial_delay: float = 1.0
    max_delay: float = 32.0
    request_timeout: float = 60.0  # seconds without data from the server during a request

    @property
    def connect_timeout(self) -> float:
        """Seconds allowed for connecting."""
        return min(_CONNECT_TIMEOUT, self.request_timeout)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failure of attempt number `attempt`, which counts from 0."""
        return min(self.max_delay, self.initial_delay * 2.0 ** min(attempt, 60))


class Attempts:
    """Counts the attempts of one request."""

    def __init__(self, retries: Retries, what: str) -> None:
        self._retries = retries
        self._what = what  # such as ``read s3://bucket/key``; for the log
        self.failed = 0  # failed attempts
        self._unconnected_since: float | None = None
        self._begin = time.monotonic()

    def again(self, why: str, *, connected: bool = True, at_least: float = 0.0) -> bool:
        """Wait before the next attempt and return True, or return False if there is none."""
        # `why` is the last failure, `connected` tells if there was a connection, `at_least` is the server's
        # requested delay, which counts up to ``max_delay``.
        retries, now = self._retries, time.monotonic()
        delay = max(retries.delay(self.failed), min(at_least, retries.max_delay))
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
        import logging

        logging.getLogger("chunkwise.retries").info(
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
    """At most `limit` requests or computations at a time."""

    def __init__(self, limit: int = DEFAULT_CONCURRENCY) -> None:
        self.limit = limit
        self.after_fork()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Free all slots."""
        # A slot that another thread held when the process was forked would never be released.  A queue,
        # because threading's semaphores are written in Python and take ten times as long.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(min(self.limit, _MOST_SLOTS)):
            self._free.put(None)

    def call(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of `work`, which holds a slot while it runs."""
        free = self._free
        [_] = map(free.get, (True,))  # unpacked: see chunkwise.core.kvstore.files.protocol
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
        """Restart the count."""
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

    gap: int = 1 << 20  # largest gap, in bytes, that is read rather than skipped
    largest: int = 1 << 26  # size, in bytes, from which a request is not extended


class Limits(NamedTuple):
    """Number, rate and repetition of requests, and the meaning of a refused read."""

    slots: Slots
    retries: Retries = Retries()
    read_pace: Pace | None = None
    write_pace: Pace | None = None
    coalescing: Coalescing = Coalescing()
    denied_is_missing: bool = False  # HTTP status 403 of a read, as from a bucket that may not be listed
