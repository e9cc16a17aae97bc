"""The connection to a bucket: the access that works, the conditional writes it has, requests within limits.

Servers differ: some ignore the conditions and overwrite, some expect ETags without the quotation marks that
they send, some answer reads with other ETags than writes, or with none.  So before a process's first
conditional write to a bucket, a scratch key next to the key in question is written a few times and deleted.

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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.objects.bucket import Access, Bucket, proxy_advice
from chunkwise.core.kvstore.objects.failure import Failure, Kind, RequestFailedError, failure_of, is_failure
from chunkwise.core.kvstore.objects.obstore import object_library
from chunkwise.core.kvstore.objects.rest_bucket import RestBucket
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Attempts, Limits, Retries
from chunkwise.errors import ChunkwiseError, CredentialsError, UnsupportedError, prefix

if TYPE_CHECKING:
    import obstore.store

__all__ = ["ConditionalWrites", "Request", "Requests", "head_marked", "learned", "put_marked", "update_mode"]


class ConditionalWrites(NamedTuple):
    """Conditions that a server honours."""

    create: bool  # write only if the value is missing
    replace: bool  # write only if the present value is the expected one
    quoted: bool  # ETags are sent back in quotation marks
    why: str = ""  # why not, if known
    same_tags: bool = True  # writes and reads are answered with the same ETag
    keeps_marks: bool = False  # stored values show which write they are of

    @property
    def safe(self) -> bool:
        """True if concurrent writers of parts of a value lose nothing."""
        return self.create and self.replace


def _probe(library: ModuleType, store: obstore.store.ObjectStore, key: str) -> ConditionalWrites:
    """Return the conditions that the server of `store` honours, tested with a scratch key beside `key`."""
    directory, slash, _ = key.rpartition("/")
    scratch = f"{directory}{slash}.chunkwise-probe-{os.urandom(16).hex()}"

    mark = os.urandom(16).hex()

    def put(value: bytes, mode: str | dict[str, str]) -> Any:
        """Return the result; None if the condition failed or is not supported."""
        nonlocal mark
        try:
            return put_marked(library, store, scratch, value, mark, mode=mode, use_multipart=False)
        except Exception as e:
            kind = failure_of(e).kind
            if kind == "unsupported" and mark:  # perhaps the mark, perhaps the condition
                mark = ""
                return put(value, mode)
            if kind in ("exists", "mismatch", "unsupported"):
                return None
            raise

    def unsafe(why: str) -> ConditionalWrites:
        return ConditionalWrites(create, False, True, why)

    create = False
    try:
        first = put(b"1", "create")
        create = first is not None and put(b"2", "create") is None
        first = first or put(b"1", "overwrite")
        wrong = {"e_tag": '"00000000000000000000000000000000"', "version": "1"}
        if not create:
            return ConditionalWrites(
                create,
                False,
                True,
                "the server replaces existing values where only new ones are allowed",
            )
        if put(b"3", wrong) is not None:
            return ConditionalWrites(
                create, False, True, "the server ignores the ETag that a write depends on"
            )
        # A change begins with a read, so the ETag of a read counts.
        read, head = library.get(store, scratch).meta, head_marked(library, store, scratch)
        tag, version = read["e_tag"], read["version"]
        if tag is None and version is None:
            return unsafe("the server answers a read without an ETag")
        if tag != head["e_tag"]:
            return ConditionalWrites(
                create, False, True, "the server's ETags in answers to GET and HEAD differ"
            )
        for quoted in (True, False):
            if put(b"4", update_mode(tag, version, quoted=quoted)) is not None:
                is_marked = bool(mark) and head["mark"] == mark
                return ConditionalWrites(create, True, quoted, "", first["e_tag"] == tag, is_marked)
        return ConditionalWrites(
            create, False, True, "the server refuses the ETag that it answers a read with"
        )
    finally:
        library.delete(store, scratch)


def put_marked(
    library: ModuleType, store: obstore.store.ObjectStore, key: str, value: Buffer, mark: str, **options: Any
) -> Any:
    """Store a value, with the mark of this write unless that is empty."""
    if mark:
        over_obstore = isinstance(library, ModuleType)
        options |= {"attributes": {_mark_name(store): mark}} if over_obstore else {"mark": mark}
    return library.put(store, key, value, **options)


def head_marked(library: ModuleType, store: obstore.store.ObjectStore, key: str) -> Mapping[str, Any]:
    """Return the metadata of a value, with the ``mark`` of the write that stored it; None if it has none."""
    if not isinstance(library, ModuleType):
        found: Mapping[str, Any] = library.head(store, key)
        return found
    answer = library.get(store, key, options={"head": True})
    return {**answer.meta, "mark": answer.attributes.get(_mark_name(store))}


def _mark_name(store: obstore.store.ObjectStore) -> str:
    return "chunkwise_write" if type(store).__name__ == "AzureStore" else "chunkwise-write"


def update_mode(e_tag: str | None, version: str | None, *, quoted: bool) -> dict[str, str]:
    """Return obstore's mode for a write that replaces only one version."""
    if e_tag is not None and not e_tag.startswith("W/"):
        e_tag = f'"{e_tag.strip(chr(34))}"' if quoted else e_tag.strip('"')
    return {name: value for name, value in (("e_tag", e_tag), ("version", version)) if value is not None}


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
                    found, failure = self.run("write", key, partial(_probe, key=key))
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
