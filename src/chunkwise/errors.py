"""The exceptions that chunkwise raises.

Each is also the built-in exception that TensorStore raises for the same cause, so that ``except
ValueError`` written for TensorStore keeps working.  A status such as ``NOT_FOUND`` is the first
word of the text, as there.  Context is added on the way up with `prefix`, which puts the
outer operation in front: ``NOT_FOUND: Error opening "n5" driver: Error reading "a/0/0"``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "BucketNotFoundError",
    "CancelledError",
    "ChunkwiseError",
    "CodecError",
    "CredentialsError",
    "DataCorruptionError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "GenerationMismatchError",
    "InvalidArgumentError",
    "NodeNotFoundError",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "SpecError",
    "StorageError",
    "ThrottledError",
    "TooLargeError",
    "UnavailableError",
    "UnknownExtensionError",
    "UnsafeWriteError",
    "UnsupportedError",
    "WrongEndpointError",
    "braced",
    "prefix",
]


class ChunkwiseError(Exception):
    """Base of every exception that chunkwise raises on its own behalf.

    Attributes
    ----------
    message : str
        What happened, without the status.
    status : str
        Upper-case status word that starts the text, or the empty string.
    """

    status: ClassVar[str] = ""
    message: str

    def __init__(self, message: str = "", *args: object) -> None:
        super().__init__(message, *args)
        self.message = message

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" if self.status else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Without this, Dask, by tblib, can't rebuild a class that has two built-in bases.
        return type(self), self.args, vars(self)


class InvalidArgumentError(ChunkwiseError, ValueError):
    """A spec, option or value that the caller can mend."""


class SpecError(InvalidArgumentError):
    """JSON that is not a valid spec; the text names the member."""


class UnknownExtensionError(InvalidArgumentError):
    """A codec, data type, grid, driver or kvstore name that nothing is registered for."""


class OutOfBoundsError(ChunkwiseError, IndexError):
    """An index or an indexing expression that does not fit the domain."""


class OutOfRangeError(ChunkwiseError, ValueError):
    """A position or byte range that is outside what is stored, found while reading or writing."""

    status = "OUT_OF_RANGE"
    size: int | None = None  # of the value, in bytes, if that is what the range is outside of


class NotFoundError(ChunkwiseError, ValueError, FileNotFoundError):
    """A key, array or member that does not exist."""

    status = "NOT_FOUND"


class NodeNotFoundError(NotFoundError, KeyError):
    """A group or array that a group doesn't have."""


class AlreadyExistsError(ChunkwiseError, ValueError, FileExistsError):
    """Something to be created is there already."""

    status = "ALREADY_EXISTS"


class FailedPreconditionError(ChunkwiseError, ValueError):
    """What is stored does not agree with what the caller requires of it."""

    status = "FAILED_PRECONDITION"


class UnsupportedError(ChunkwiseError, NotImplementedError):
    """Valid input that this version of chunkwise, or the driver, can't do."""


class CodecError(ChunkwiseError, ValueError):
    """Values that a codec can't encode, or a codec that can't be used as configured."""


class DataCorruptionError(CodecError):
    """Stored bytes that are not what the metadata promises: truncated, oversized, bad checksum."""

    status = "DATA_LOSS"


class AbortedError(ChunkwiseError, ValueError):
    """A concurrent change made the operation impossible; it may succeed when tried again."""

    status = "ABORTED"


class GenerationMismatchError(AbortedError):
    """A conditional write found another generation than the one it was promised."""


class CancelledError(ChunkwiseError, ValueError):
    """The operation was cancelled, for example by aborting its transaction."""

    status = "CANCELLED"


class StorageError(ChunkwiseError, ValueError, OSError):
    """The storage behind a kvstore failed: disk full, I/O error, network error.

    ``errno`` is that of the operating system's error where there is one.
    """

    status = "UNKNOWN"

    def __init__(self, message: str = "", errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.errno), vars(self)


class DeadlineExceededError(StorageError, TimeoutError):
    """The storage, or another writer of it, kept us waiting for too long."""

    status = "DEADLINE_EXCEEDED"


class PermissionDeniedError(StorageError, PermissionError):
    """The storage refused the operation."""

    status = "PERMISSION_DENIED"


class CredentialsError(PermissionDeniedError):
    """The storage does not take the credentials: none found, unknown, expired, or a wrong signature."""

    status = "UNAUTHENTICATED"


class BucketNotFoundError(StorageError):
    """The bucket or container itself does not exist, so nothing can be said of its keys."""

    status = "NOT_FOUND"


class WrongEndpointError(StorageError):
    """The request went to the wrong region, or to a server that does not speak the protocol."""

    status = "FAILED_PRECONDITION"


class ThrottledError(StorageError):
    """The storage asked for fewer requests, and went on asking until the retries were used up."""

    status = "RESOURCE_EXHAUSTED"


class UnavailableError(StorageError, ConnectionError):
    """The storage could not be reached, broke the connection off, or failed itself."""

    status = "UNAVAILABLE"


class UnsafeWriteError(FailedPreconditionError):
    """A write that depends on what is stored, to a store that can't promise that nobody else writes."""


class TooLargeError(ChunkwiseError, MemoryError):
    """A chunk that does not fit into memory."""

    status = "RESOURCE_EXHAUSTED"


E_ = TypeVar("E_", bound=BaseException)


def prefix(error: E_, context: str) -> E_:
    """Put `context` in front of the text of `error` and return it.

    A foreign exception keeps its text and type, and gets `context` as a note.
    """
    if isinstance(error, ChunkwiseError):
        error.message = f"{context}: {error.message}"
        error.args = (error.message, *error.args[1:])
    else:
        error.add_note(context)
    return error


def braced(numbers: Iterable[object]) -> str:
    """Return ``{1, 2}``, as messages show shapes and indices."""
    return "{" + ", ".join(map(str, numbers)) + "}"
