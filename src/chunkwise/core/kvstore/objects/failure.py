"""Failures of object stores and of stores of other libraries, as exceptions of this one.

A chunk is missing only if the server definitely says so: a missing bucket, a server that is not an object
store, or a denied request is never read as fill values.
"""

from __future__ import annotations

import re
from asyncio import CancelledError
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, TypeAlias

from chunkwise.core.kvstore.web.connection import certificate_advice
from chunkwise.errors import (
    BucketNotFoundError,
    ChunkwiseError,
    CredentialsError,
    DeadlineExceededError,
    InvalidArgumentError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
    UnavailableError,
    WrongEndpointError,
)

__all__ = [
    "LOST_RACE",
    "Failure",
    "Kind",
    "RequestFailedError",
    "failure_of",
    "failure_of_answer",
    "failure_of_code",
    "is_failure",
    "raise_failure",
]

Kind: TypeAlias = Literal[
    "missing",
    "unclear",
    "bucket",
    "exists",
    "mismatch",
    "unchanged",
    "range",
    "denied",
    "credentials",
    "region",
    "throttled",
    "timeout",
    "unreachable",
    "server",
    "key",
    "unsupported",
    "certificate",
    "lost",
    "other",
]
"""``lost`` means a conditional write without an answer, which may have been carried out.

``unclear`` is a 404 that doesn't tell whether the key or the bucket is missing."""

Again: TypeAlias = Literal["always", "unless conditional", "never"]

_STATUS = re.compile(r"status code: (\d{3})")
_NO_CONNECTION = re.compile(r"kind: Connect\b|legacy::Error\(\s*Connect,")
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_PLACE = re.compile(r"Error performing \w+ (https?://[^/\s]+)")
_CAUSE = re.compile(r'(?:message|error): "([^"]+)"')
_CODE = re.compile(r"<Code>\s*([\w.]+)\s*</Code>")
_REGION = re.compile(r"<Region>\s*([\w-]+)\s*</Region>")
_MISSING = {"NoSuchKey", "BlobNotFound", "NoSuchVersion"}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "ResourceNotFound", "ContainerBeingDeleted"}
_CREDENTIALS = {
    "AuthenticationFailed": "the server does not accept the key or the signature",
    "ExpiredToken": "the session has expired; get new credentials",
    "ExpiredTokenException": "the session has expired; get new credentials",
    "InvalidAccessKeyId": "the server does not know this access key",
    "InvalidAuthenticationInfo": "the server does not accept the token",
    "InvalidToken": "the session token is malformed",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "SignatureDoesNotMatch": "the secret does not belong to the access key",
    "TokenRefreshRequired": "the session has expired; get new credentials",
}
_THROTTLED = {"SlowDown", "ServerBusy", "RequestLimitExceeded", "Throttling", "TooManyRequests"}
_CONFLICT = {"ConditionalRequestConflict", "BlobAlreadyExists", "OperationAborted", "PreconditionFailed", ""}
LOST_RACE = "HTTP status 500, UnknownError"
"""Answer of Ceph's gateway to a write on condition of an ETag if another write was faster."""
_BUSY = ("ConditionalRequestConflict", "OperationAborted")
_REDIRECT = {
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a request."""

    kind: Kind
    detail: str  # message of the server or the network, on one line
    region: str = ""  # region of the bucket, if the server named it
    again: Again = "never"  # never for a conditional request that may have been carried out
    connected: bool = True  # there was a connection to a server
    at_least: float = 0.0  # seconds for which the server asks to wait

    @property
    def is_refusal(self) -> bool:
        """True if the server does not allow the request with these credentials."""
        return self.kind in ("denied", "credentials")

    def error(self, operation: str, url: str, advice: str = "") -> ChunkwiseError:
        """Return the exception, with the operation and URL, the cause and the advice."""
        return _error(self, f"Failed to {operation} {url}: {self.detail}", advice)


class RequestFailedError(Exception):
    """A request of `chunkwise.core.kvstore.objects.rest_bucket` has failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


def _error(failure: Failure, text: str, advice: str) -> ChunkwiseError:
    def say(hint: str) -> str:
        return "; ".join(filter(None, (text, hint, advice)))

    match failure.kind:
        case "bucket" | "missing" | "unclear":
            return BucketNotFoundError(say("check the name of the bucket or container, and the endpoint"))
        case "denied":
            return PermissionDeniedError(
                say(
                    "check the permissions of these credentials "
                    "(a bucket that may not be listed reports this for missing keys too)"
                )
            )
        case "credentials":
            return CredentialsError(say("check the credentials"))
        case "region":
            if failure.region:
                return WrongEndpointError(say(f'the bucket is in "{failure.region}"; set the region'))
            where = "" if "redirects to" in failure.detail else "another region has the bucket; "
            return WrongEndpointError(say(f"{where}set the region or the endpoint"))
        case "throttled":
            return ThrottledError(say("lower the request concurrency, or raise the retries"))
        case "timeout":
            return DeadlineExceededError(say("check the network, or raise the retries"))
        case "unreachable":
            return UnavailableError(say("check the endpoint and the network"))
        case "server":
            return UnavailableError(say("the server failed; try again later"))
        case "certificate":
            return StorageError(say(certificate_advice()))
        case "key":
            return InvalidArgumentError(say(""))
        case _:
            return StorageError(say(""))


def failure_of(error: BaseException) -> Failure:
    """Return the failure for an exception of a request."""
    if isinstance(error, RequestFailedError):
        return error.failure
    if isinstance(error, CredentialsError):
        return Failure("credentials", _one_line(str(error)))
    name = type(error).__name__
    text = str(error).partition("\n\nDebug source")
    said, debug = text[0], text[2]
    status = _STATUS.search(said)
    if status is not None:
        body = said[status.end() :]
        found = failure_of_answer(int(status[1]), body)
        if found.kind == "missing" and name in ("AlreadyExistsError", "PreconditionError"):
            return Failure("mismatch", found.detail)
        if found.kind == "mismatch" and name == "AlreadyExistsError":
            return Failure("exists", found.detail)
        return found
    detail = _one_line(said)
    kinds: dict[str, Kind] = {
        "FileNotFoundError": "unclear",
        "AlreadyExistsError": "exists",
        "PreconditionError": "mismatch",
        "NotModifiedError": "unchanged",
        "PermissionDeniedError": "denied",
        "UnauthenticatedError": "credentials",
        "InvalidPathError": "key",
        "NotSupportedError": "unsupported",
        "NotImplementedError": "unsupported",
        "UnicodeEncodeError": "key",
    }
    if name in kinds:
        return Failure(kinds[name], detail)
    if "Unable to open file" in said and "(os error 20)" in said:  # a parent of the path is a file
        return Failure("missing", detail)
    if isinstance(error, ValueError) and "parse path" in said:
        return Failure("key", detail)
    if "StartTooLarge" in debug:
        return Failure("range", detail)
    if "redirect without LOCATION" in said:
        return Failure("region", detail)
    connected = _NO_CONNECTION.search(debug) is None
    refused = _CERTIFICATE.search(debug)
    if refused is not None:
        place = _PLACE.search(detail)
        return Failure("certificate", f"{place[1] if place else detail}: {refused[1]}")
    if "kind: Timeout" in debug or "timed out" in said:
        timed_out: Again = "unless conditional" if connected else "always"
        return Failure("timeout", _told(detail, debug), again=timed_out, connected=connected)
    if "HTTP error" in said or "HttpError" in debug or not connected:
        # If an answer breaks off, the request may have been carried out.
        again: Again = "unless conditional" if "kind: Interrupted" in debug else "always"
        return Failure("unreachable", _told(detail, debug), again=again, connected=connected)
    if "redential" in said:
        return Failure("credentials", detail)
    return Failure("other", detail)


def _told(detail: str, debug: str) -> str:
    """Return the server and the cause, which only the debug text contains."""
    place, cause = _PLACE.search(detail), _CAUSE.search(debug)
    why = cause[1] if cause else "timed out" if "kind: Timeout" in debug else ""
    return f"{place[1]}: {why}" if place and why else detail


def failure_of_answer(status: int, body: str) -> Failure:
    """Return the failure for an HTTP answer with an error status."""
    failure = _of_answer(status, body)
    passing = failure.kind in ("throttled", "server", "timeout") or any(c in failure.detail for c in _BUSY)
    return replace(failure, again="always") if passing else failure


def failure_of_code(code: str) -> Failure:
    """Return the failure for an error in the body of an answer whose status tells of success."""
    denied = code in ("AccessDenied", "AuthorizationFailure", "AuthorizationPermissionMismatch")
    found = failure_of_answer(403 if denied else 500, f"<Code>{code}</Code>")
    return replace(found, detail=f"{code or 'an error'} in an answer with a status of success")


def _of_answer(status: int, body: str) -> Failure:
    found = _CODE.search(body)
    code = found[1] if found else ""
    detail = f"HTTP status {status}" + (f", {code}" if code else "")
    if code in _CREDENTIALS:
        return Failure("credentials", f"{detail}: {_CREDENTIALS[code]}")
    if code in _REDIRECT or status in (301, 302, 307, 308):
        region = _REGION.search(body)
        return Failure("region", detail, region[1] if region else "")
    if code in _THROTTLED or status == 429:
        return Failure("throttled", detail)
    if status == 404:
        return Failure(
            "missing" if code in _MISSING else "bucket" if code in _NO_BUCKET else "unclear", detail
        )
    kinds: dict[int, Kind] = {
        304: "unchanged",
        401: "credentials",
        403: "denied",
        405: "unsupported",
        408: "timeout",
        412: "mismatch",
        416: "range",
        501: "unsupported",
    }
    if status in kinds:
        return Failure(kinds[status], detail)
    if status == 409:
        return Failure("mismatch" if code in _CONFLICT else "other", detail)
    if status == 503:
        return Failure("throttled" if not code else "server", detail)
    if status >= 500:
        return Failure("server", detail)
    return Failure("other", f"{detail}: {_one_line(body)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def is_failure(error: BaseException) -> bool:
    """Return True for a library's failure, which may be no `Exception`; False for an interrupt."""
    # Libraries in Rust panic, and coroutines are cancelled.
    return isinstance(error, Exception | CancelledError) or type(error).__name__ == "PanicException"


def raise_failure(error: BaseException, what: str, advice: str = "") -> NoReturn:
    """Raise the error for a failure of `what`; our own exceptions and interrupts are raised again."""
    if isinstance(error, ChunkwiseError) or not is_failure(error):
        raise error
    text = f"Failed to {what}: {str(error) or type(error).__name__}"
    if isinstance(error, PermissionError):
        raise PermissionDeniedError(text + advice) from error
    if isinstance(error, TimeoutError):
        raise DeadlineExceededError(text) from error
    raise StorageError(text, getattr(error, "errno", None)) from error
