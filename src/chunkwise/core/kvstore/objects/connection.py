"""The connection to a bucket: the access that works is found once, and remembered.

1. The first request uses the best access that the configuration allows: credentials if any are found,
   otherwise anonymous.
2. If it is denied, or went to the wrong region, the request is repeated once with the other access.  If that
   works, all later requests to the bucket use it, from other stores of this process too.
3. If both are denied, the error reports both denials, and is about the credentials if they are the cause. The
   next request looks for credentials again.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar

from chunkwise.core.base.fork import new_lock
from chunkwise.core.kvstore.libraries.foreign_failure import is_failure
from chunkwise.core.kvstore.objects.bucket import Access, Bucket
from chunkwise.core.kvstore.objects.failure import Failure, RequestFailedError, failure_of
from chunkwise.core.kvstore.objects.library import object_library
from chunkwise.core.kvstore.objects.probe import ConditionalWrites
from chunkwise.core.kvstore.objects.rest_bucket import RestBucket
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.errors import UnsupportedError

__all__ = ["Connection", "Learned", "Request", "learned"]

T = TypeVar("T")
Request: TypeAlias = "Callable[[Any, Any], T]"
"""A request, called with obstore's module, or functions like its, and a store."""

# Failures of a request that was not denied.
_ANSWERS = ("missing", "mismatch", "exists", "unchanged", "range")
_MOST = 1000  # buckets whose connections are kept; limited for servers of many users' data


class Learned:
    """Facts about a bucket that this process has learned."""

    def __init__(self) -> None:
        self.access: Access | None = None  # the access that worked
        # Stores, by process, access and retries.
        self.stores: dict[tuple[int, Access, Retries], Any] = {}
        self.exists = False  # the bucket is known to exist
        self.conditional: ConditionalWrites | None = None
        self.lock = new_lock()

    def forget_access(self) -> None:
        """Look for credentials again with the next request: the user may have corrected them."""
        self.access = None
        self.stores.clear()


_buckets: OrderedDict[Hashable, Learned] = OrderedDict()
_lock = new_lock()


def learned(bucket: Bucket) -> Learned:
    """Return the facts about a bucket; beyond a limit, the least recently used are forgotten."""
    key = bucket.identity, bucket
    with _lock:
        found = _buckets.get(key)
        if found is None:
            found = _buckets[key] = Learned()
            if len(_buckets) > _MOST:
                _buckets.popitem(last=False)
        else:
            _buckets.move_to_end(key)
        return found


class Connection:
    """Requests to `bucket`, with new connections in each process."""

    def __init__(self, bucket: Bucket, retries: Retries) -> None:
        self.bucket = bucket
        self.retries = retries

    def __reduce__(self) -> tuple[object, ...]:
        return Connection, (self.bucket, self.retries)

    @property
    def facts(self) -> Learned:
        """Facts about the bucket."""
        return learned(self.bucket)

    def run(self, request: Request[T]) -> T:
        """Make a request, ``request(library, store)``; its exceptions are passed on."""
        # If both accesses are denied, the exception has a note about the first.
        known = self.facts
        access = known.access or self.bucket.accesses()[0]
        try:
            return self._request(request, access)
        except UnsupportedError:  # a package is missing that credentials need
            raise
        except Exception as e:
            failure = failure_of(e)
            other = None if failure.kind in _ANSWERS else self.bucket.other_access(access, failure)
            if other is not None:
                return self._other_way(request, other, f"{_way(access)}: {failure.detail}", e)
            if failure.kind in ("denied", "credentials"):
                known.forget_access()
            raise

    def _other_way(self, request: Request[T], access: Access, first: str, refusal: Exception) -> T:
        try:
            return self._request(request, access)
        except Exception as e:
            failure = failure_of(e)
            if failure.kind in _ANSWERS:
                raise
            self.facts.forget_access()
            told = refusal if failure.kind == "denied" and failure_of(refusal).kind == "credentials" else e
            told.add_note(f"{first}; {_way(access)}: {failure.detail}")
            if told is e:
                raise
            raise refusal from None

    def _request(self, request: Request[T], access: Access) -> T:
        try:
            result = request(*self._store(access))
        except BaseException as e:
            if not isinstance(e, Exception) and is_failure(e):
                raise RequestFailedError(Failure("other", f"obstore failed: {e}")) from e
            if failure_of(e).kind in _ANSWERS:
                self.facts.access = access
            raise
        self.facts.access = access
        return result

    def _store(self, access: Access) -> tuple[Any, Any]:
        """Return the functions for requests, which are obstore's or those of `RestBucket`, and the store."""
        key = os.getpid(), access, self.retries
        stores = self.facts.stores
        found = stores.get(key)
        library = object_library() if self.bucket.over_obstore else RestBucket
        if found is None:
            found = stores[key] = self.bucket.connect(library, access, self.retries)
        return library, found


def _way(access: Access) -> str:
    way = "with credentials" if access.signed else "anonymously"
    return f'{way} in region "{access.region}"' if access.region else way
