"""Requests to one bucket, within its limits, with errors that name the operation that the server refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from chunkwise.core.kvstore.objects.bucket import Bucket, proxy_advice
from chunkwise.core.kvstore.objects.connection import Connection, Request
from chunkwise.core.kvstore.objects.failure import Failure, Kind, failure_of
from chunkwise.core.kvstore.objects.probe import ConditionalWrites, probe
from chunkwise.core.kvstore.request_limits import Attempts, Limits, Retries
from chunkwise.errors import ChunkwiseError, CredentialsError, UnsupportedError, prefix

if TYPE_CHECKING:
    import obstore.store

__all__ = ["Requests"]

T = TypeVar("T")

_REFUSED = ("throttled", "mismatch", "exists")


class Requests:
    """Makes the requests of `chunkwise.core.kvstore.objects.object_store.ObjectStore`."""

    def __init__(self, bucket: Bucket, limits: Limits) -> None:
        self._bucket = bucket
        self._limits = limits
        self._retries = limits.retries._replace(max_retries=0) if bucket.retries_itself else limits.retries
        # obstore itself retries only parts of a value, so that parts already sent need not be sent again.
        self._connection = Connection(bucket, limits.retries._replace(max_retries=0))
        self._parts = Connection(bucket, _few(limits.retries))

    def run(
        self,
        operation: str,
        key: str,
        request: Request[T],
        expected: Sequence[Kind] = (),
        *,
        conditional: bool = False,
        parts: bool = False,
    ) -> tuple[T | None, Failure | None]:
        """Make a request; return its result, or a failure of one of the `expected` kinds."""
        # A `conditional` request that the server may have carried out isn't repeated: the failure is
        # ``lost``, if that is expected.  With `parts`, a large value is sent in parts.
        pace = self._limits.read_pace if operation in ("read", "list") else self._limits.write_pace
        if pace is not None:
            pace.wait()
        attempts = Attempts(self._retries, f"{operation} {self._bucket.url(key)}")
        connection = self._parts if parts else self._connection
        try:
            return self._attempt(attempts, connection, request, conditional), None
        except CredentialsError as e:  # raised without knowing the request
            raise prefix(e, f"Failed to {operation} {self._bucket.url(key)}") from e.__cause__
        except ChunkwiseError:
            raise
        except Exception as e:
            failure = failure_of(e)
            if conditional and "lost" in expected and _may_be_done(failure):
                return None, replace(failure, kind="lost")
            if failure.kind == "unclear" and "missing" in expected and self._bucket_exists():
                failure = Failure("missing", failure.detail)
            if failure.kind in expected:
                return None, failure
            if failure.kind == "unsupported":
                raise UnsupportedError(
                    f"Failed to {operation} {self._bucket.url(key)}: {failure.detail}"
                ) from e
            advice = [self._bucket.advice(failure), proxy_advice(failure), *getattr(e, "__notes__", ())]
            raise failure.error(operation, self._bucket.url(key), "; ".join(filter(None, advice))) from e

    def _attempt(
        self,
        attempts: Attempts,
        connection: Connection,
        request: Request[T],
        conditional: bool = False,
    ) -> T:
        """Make a request, and repeat it after a temporary failure; raises the last attempt's error."""
        while True:
            try:
                answer: T = self._limits.slots.call(connection.run, request)
                return answer
            except ChunkwiseError:
                raise
            except Exception as e:
                failure = failure_of(e)
                if failure.again == "never" or (conditional and _may_be_done(failure)):
                    raise
                if not attempts.again(failure.detail, connected=failure.connected, at_least=failure.at_least):
                    raise

    @property
    def same_tags(self) -> bool:
        """False if a probe showed that writes are answered with other ETags than reads."""
        known = self._connection.facts.conditional
        return known is None or known.same_tags

    @property
    def why_unsafe(self) -> str:
        """Result of a probe of a server without conditional writes."""
        known = self._connection.facts.conditional
        return "" if known is None else known.why

    def conditional_writes(self, key: str) -> ConditionalWrites:
        """Return the conditions that the server honours; probed once for the bucket, close to `key`."""
        known = self._connection.facts
        if known.conditional is None:
            with known.lock:
                if known.conditional is None:
                    found, failure = self.run("write", key, partial(probe, key=key))
                    assert found is not None, failure
                    known.conditional = found
        return known.conditional

    def _bucket_exists(self) -> bool:
        """Return True if a "not found" without a reason is about the key; makes one request."""
        known = self._connection.facts
        if not known.exists:

            def look(library: ModuleType, store: obstore.store.ObjectStore) -> bool:
                next(library.list(store, chunk_size=1), None)
                return True

            try:
                attempts = Attempts(self._retries, f"list {self._bucket.url('')}")
                known.exists = self._attempt(attempts, self._connection, look)
            except Exception as e:  # a bucket that may not be listed exists; other failures count as missing
                known.exists = failure_of(e).kind == "denied"
        return known.exists


def _may_be_done(failure: Failure) -> bool:
    """Return True if a server may have carried out a request without an answer or with an error."""
    return failure.connected and failure.again != "never" and failure.kind not in _REFUSED


def _few(retries: Retries) -> Retries:
    """Return retries that take only a second or two."""
    return retries._replace(
        max_retries=min(retries.max_retries, 3),
        initial_delay=min(retries.initial_delay, 0.25),
        max_delay=min(retries.max_delay, 1.0),
    )
