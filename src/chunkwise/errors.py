"""The exceptions that chunkwise raises.

Each is also the built-in exception that TensorStore raises for the same cause, so that ``except
ValueError`` written for TensorStore keeps working.  A status such as ``NOT_FOUND`` is the first
word of the text, as there.  Context is added on the way up with `prefix`, which puts the
outer operation in front: ``NOT_FOUND: Error opening "n5" driver: Error reading "a/0/0"``.

The docstring of a class has the cause, then what to do; the documentation lists both.
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
    "LossWarning",
    "NodeNotFoundError",
    "NotFoundError",
    "OutOfBoundsError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResizedError",
    "SpecError",
    "StorageError",
    "ThrottledError",
    "TooLargeError",
    "UnavailableError",
    "UnknownExtensionError",
    "UnsafeWriteError",
    "UnsupportedError",
    "WrongEndpointError",
    "as_value_error",
    "braced",
    "hint",
    "nearest",
    "noted",
    "prefix",
    "prefixed",
]


class ChunkwiseError(Exception):
    """Base of every exception that chunkwise raises on its own behalf.

    Attributes
    ----------
    message : str
        Text of the error, without the status.
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
    """A spec, option or value that the caller can correct.

    The text names the argument, its value and what was expected: change the call.
    """


class OptionError(InvalidArgumentError):
    """An option of a new array that has the wrong form, or that an array or its format can't have.

    The text begins with the name of the option.
    """


class SpecError(InvalidArgumentError):
    """JSON that is not a valid spec; the text names the member.

    Look up the member that the text names in the tables of JSON members, and correct it.
    """


class UnknownExtensionError(InvalidArgumentError):
    """A codec, data type, grid, driver or kvstore name that nothing is registered for.

    Correct the spelling: the text or a note has the known names.  A missing extension can be
    registered: a codec, data type or store of one's own is one class.
    """


class OutOfBoundsError(ChunkwiseError, IndexError):
    """An index or an indexing expression that does not fit the domain.

    Domains may begin below or above 0, so negative numbers are positions.  Print `array.domain`,
    or let it begin at 0 with `array.translate_to[0]`.
    """


class OutOfRangeError(ChunkwiseError, ValueError):
    """A position or byte range outside the stored data, found while reading or writing.

    The array shrank, or the object was replaced by a shorter one, after it was opened.  Open it again; if
    nothing was changed, `chunkwise verify` names the damaged chunks.
    """

    status = "OUT_OF_RANGE"
    size: int | None = None  # of the value, in bytes, if that is what the range is outside of


class NotFoundError(ChunkwiseError, ValueError, FileNotFoundError):
    """A key, array or member that does not exist.

    Check path and format: the text lists what lies nearby, and `chunkwise tree` shows the rest.
    ``create=True`` makes a new array.  A chunk that isn't stored is this error only with
    ``fill_missing_data_reads: false``.
    """

    status = "NOT_FOUND"


class NodeNotFoundError(NotFoundError, KeyError):
    """A group or array that a group doesn't have.

    Check with ``name in group``; `sorted(group)` lists the members.
    """


class AlreadyExistsError(ChunkwiseError, ValueError, FileExistsError):
    """Something to create exists already.

    ``open=True`` opens it; ``delete_existing=True``, or ``--overwrite`` on the command line,
    replaces it.
    """

    status = "ALREADY_EXISTS"


class FailedPreconditionError(ChunkwiseError, ValueError):
    """Stored data don't match the caller's requirements.

    The text has both values.  Leave out the constraint, or give the stored value; if another program replaced
    the array, open it again.
    """

    status = "FAILED_PRECONDITION"


class ResizedError(FailedPreconditionError):
    """Another writer resized an array during an append, without an append.

    The text has both sizes.  Nothing was appended, to this array: append again.
    """


class UnsupportedError(ChunkwiseError, NotImplementedError):
    """Valid input that this version of chunkwise, or the driver, can't do.

    The text names the feature.  Another driver, codec or data type may have it; see the tables of
    supported features.
    """


class CodecError(ChunkwiseError, ValueError):
    """Values that a codec can't encode, or a codec that can't be used as configured.

    Choose another codec, or other settings: the text names the codec and what it was given.
    """


class DataCorruptionError(CodecError):
    """Stored bytes that are not what the metadata promises: truncated, oversized, bad checksum.

    Run `chunkwise verify` for a list of the damaged keys.  Write the whole chunk again from a copy, or
    delete its key, so that it reads as the fill value.
    """

    status = "DATA_LOSS"


class AbortedError(ChunkwiseError, ValueError):
    """A concurrent change made the operation impossible; it may succeed when tried again.

    Do it again.  If it never succeeds, something else writes the same key all the time.
    """

    status = "ABORTED"


class GenerationMismatchError(AbortedError):
    """A conditional write found another generation than expected.

    Read the value again, and write on condition of the generation that came with it.
    """


class CancelledError(ChunkwiseError, ValueError):
    """The operation was cancelled, for example by aborting its transaction.

    Nothing is wrong: begin again if the result is still wanted.
    """

    status = "CANCELLED"


class StorageError(ChunkwiseError, ValueError, OSError):
    """The storage behind a kvstore failed: disk full, I/O error, network error.

    The text names key and cause, `errno` the number of the operating system.  Free space, or repair
    the connection; nothing that was acknowledged is lost.
    """

    status = "UNKNOWN"

    def __init__(self, message: str = "", errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.errno), vars(self)


class DeadlineExceededError(StorageError, TimeoutError):
    """The storage, or another writer, took too long.

    Delete a lock file that a killed process left on a file system without locks; otherwise try again later.
    """

    status = "DEADLINE_EXCEEDED"


class PermissionDeniedError(StorageError, PermissionError):
    """The storage refused the operation.

    Ask for the permission that the text names: files and directories need read and write permission,
    buckets a policy for listing, reading, writing and deleting.
    """

    status = "PERMISSION_DENIED"


class CredentialsError(PermissionDeniedError):
    """The storage does not take the credentials: none found, unknown, expired, or a wrong signature.

    Renew or name the credentials: ``aws_credentials`` and the other members of the spec, or the
    environment of the cloud's own tools.
    """

    status = "UNAUTHENTICATED"


class BucketNotFoundError(StorageError):
    """The bucket or container itself does not exist.

    Correct the name of the bucket, or create it with the provider's tools; chunkwise doesn't create buckets.
    """

    status = "NOT_FOUND"


class WrongEndpointError(StorageError):
    """The request went to the wrong region, or to a server that does not speak the protocol.

    Set ``aws_region`` or ``endpoint``: the text has the region that the server named.
    """

    status = "FAILED_PRECONDITION"


class ThrottledError(StorageError):
    """The storage asked for fewer requests, even after all retries.

    Lower the limit of concurrent requests in the context, or raise the number of retries.
    """

    status = "RESOURCE_EXHAUSTED"


class UnavailableError(StorageError, ConnectionError):
    """The storage could not be reached, closed the connection, or failed.

    Check address and network, then try again.  Everything written before is stored.
    """

    status = "UNAVAILABLE"


class UnlistedError(UnsupportedError):
    """The storage can't list its keys, like a web server.

    Open arrays by their own URL, or trees that have consolidated metadata.
    """


class LostAnswerError(UnavailableError):
    """The answer to a conditional write was lost, and something else is stored now.

    It is unknown whether the write was carried out before that.  Look at the stored value, then write again.
    """


class UnsafeWriteError(FailedPreconditionError):
    """A conditional write to a store that can't guarantee its condition.

    Write whole chunks, or say with ``single_writer: true`` that no other process writes.
    """


class TooLargeError(ChunkwiseError, MemoryError):
    """A chunk that does not fit into memory.

    Read or write smaller parts; if the size in the text is implausible, the metadata or the chunk is damaged.
    """

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


class prefixed:  # noqa: N801  (used like a function)
    """Put `context` in front of the text of errors of a kind that a block raises; see `prefix`."""

    __slots__ = ("_context", "_kind")

    def __init__(self, context: str, kind: type[Exception] = InvalidArgumentError) -> None:
        self._context = context
        self._kind = kind

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, self._kind):
            prefix(error, self._context).__cause__ = None  # as in raise ... from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean "zarr3"?`` for a name that is like a known one, else nothing."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), n=1)
    return f'did you mean "{near[0]}"?' if near else ""


class LossWarning(UserWarning):
    """A copy lacks something of its source, or stores it in another form, since its format can't hold it.

    ``losses`` has pairs of a path in the copy and what it lacks there.  Copy to another format, or with
    options such as ``dtype`` that make it fit.
    """

    status: ClassVar[str] = ""

    def __init__(self, message: str, losses: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.losses = tuple(losses)


def hint(name: str, known: Iterable[str], more: str = "") -> str:
    """Return the nearest known name, if one is near, and all of them, for an error about `name`."""
    names = sorted(set(known))
    near, known_ones = nearest(name, names), f"known: {', '.join(names)}{more}"
    return f"{near} ({known_ones})" if near else known_ones


def noted(error: E_, note: str) -> E_:
    """Add `note`, if there is one, to `error` and return it.

    Notes are for what TensorStore doesn't say: the text stays equal to TensorStore's.
    """
    if note:
        error.add_note(note)
    return error


def as_value_error(error: OutOfBoundsError) -> ChunkwiseError:
    """Return the ValueError for an error that is an IndexError only where users index."""
    status, _, message = error.message.partition(": ")
    if status == OutOfRangeError.status:
        return OutOfRangeError(message)
    return InvalidArgumentError(error.message)


def braced(numbers: Iterable[object]) -> str:
    """Return ``{1, 2}``, the form of shapes and indices in messages."""
    return "{" + ", ".join(map(str, numbers)) + "}"
