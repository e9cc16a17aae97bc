"""Opening, creating and resizing a chunked array, in the order that makes concurrent creators safe.

1. With ``assume_metadata`` or ``assume_cached_metadata`` nothing is read: the spec alone decides.
2. With ``delete_existing``, metadata is chosen from the spec and replaces everything under the array's
   prefix; if the array can't be created, nothing is deleted.
3. With ``open``, the metadata is read, unless the known metadata is recent enough; if it exists, it is
   checked against the spec.
4. With ``create``, it is chosen from the spec and written on condition that it is still missing.  The loser
   of that race continues at 3, or gets an error that the array exists.  If a directory without metadata can
   be a group (N5), it must not contain anything that an array would hide.
5. With ``create`` alone, it is written at once, since usually there is nothing to read.

The metadata is read, changed and written on condition that it is unchanged, so that simultaneous resizes and
changes of attributes are not lost.  Chunks that are then wholly outside are deleted afterwards: a reader that
opens the array in between sees the new shape, and all its chunks exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.chunk_key import is_number
from chunkwise.core.driver.chunked.documents import cache_document, cached_document, cached_metadata
from chunkwise.core.driver.chunked.format import Format, Metadata
from chunkwise.core.driver.flow import Flow, Get, ListChildren, Put, ReplacePrefix
from chunkwise.core.kvstore.compare_and_swap import Losses
from chunkwise.core.kvstore.places.staging import is_staging
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, UNKNOWN_GENERATION, Stamped
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    prefixed,
)

__all__ = [
    "OpenRequest",
    "Opened",
    "check_container",
    "not_same",
    "open_array",
    "read_metadata",
    "replaced",
    "resize_array",
]


class OpenRequest(NamedTuple):
    """An array to open or create."""

    format: Format
    path: str  # prefix of the array's keys: empty or ending in "/"
    mode: OpenMode
    constraints: Any  # in the format's own classes
    options: Any
    schema: Schema
    describe: Callable[[str], str] = dump  # returns the kvstore's name of a key in messages
    seen: Stamped | None = None  # the document, if already read
    check_place: Callable[[], None] = lambda: None  # raises before a new array is written inside another

    @property
    def key(self) -> str:
        """Key of the metadata document."""
        return self.path + self.format.metadata_key(self.options)

    @property
    def name(self) -> str:
        """Name of the metadata document in messages."""
        return self.describe(self.key)


class Opened(NamedTuple):
    """Metadata, and the version of its document as read or written."""

    metadata: Metadata
    generation: bytes  # generation of the document
    time: float  # time at which this was current, in seconds since the epoch
    written: bool = False  # True if the document was just written


def open_array(
    request: OpenRequest, known: Opened | None = None, oldest: float = float("inf")
) -> Flow[Opened]:
    """Open or create the array described by `request`."""
    mode = request.mode
    if mode.assume_metadata or mode.assume_cached_metadata:
        return Opened(_create(request), UNKNOWN_GENERATION, float("-inf"))
    if mode.delete_existing:
        return (yield from _replaced(request))
    if known is not None and mode.open:
        if known.time < oldest:
            known = yield from _renewed(request, known)
        if known is not None:
            request.format.check(known.metadata, request.constraints, request.options, request.schema)
            return known._replace(written=False)
    if mode.create and not mode.open:
        created = yield from _created_at_once(request)
        if created is not None:
            return created
    seen, losses = request.seen, Losses(lambda: request.name)
    while True:
        stamped = (yield Get(request.key)) if seen is None else seen
        seen = None
        existing = None if stamped.value is None else bytes(stamped.value)
        if existing is not None and mode.open:
            cached = cached_document(request.format, existing)
            document = _document(request, existing) if cached is None else cached[0]
            if cached is not None or not mode.create or request.format.is_array(document):
                if cached is not None:
                    metadata = cached[1]
                else:
                    metadata = _parse(request, document)
                    cache_document(request.format, existing, document, metadata)
                _check_container(request, document)
                request.format.check(metadata, request.constraints, request.options, request.schema)
                return Opened(metadata, stamped.generation, stamped.time)
        if not mode.create:
            raise NotFoundError(f"Metadata at {request.name} does not exist")
        with prefixed(f"Error writing {request.name}", ChunkwiseError):
            metadata = _create(request)
            if existing is not None:
                document = _document(request, existing)
                adopted = (
                    None if request.format.is_array(document) else request.format.adopt(metadata, document)
                )
                if adopted is None:
                    raise AlreadyExistsError(
                        "an array exists already" if request.format.is_array(document) else "it is a group"
                    )
                metadata = adopted
            if request.format.contained:  # a directory without a document is a group if it isn't empty
                yield from _check_holds_nothing(request)
        if mode.open:
            # Checked before writing, so that no array other than the requested one is left.
            request.format.check(metadata, request.constraints, request.options, request.schema)
        if_equal = MISSING_GENERATION if existing is None else stamped.generation
        written = yield from _write(request, metadata, if_equal, stamped.time)
        if written is not None:
            return written
        losses.add(if_equal)


def _replaced(request: OpenRequest) -> Flow[Opened]:
    """Replace everything by a new array."""
    now = time.time()
    with prefixed(f"Error writing {request.name}", ChunkwiseError):
        metadata = _create(request)
        request.format.stored_array(metadata, request.path, request.options)  # raises if its codecs fail
    values = {request.format.metadata_key(request.options): request.format.encode(metadata)}
    request.check_place()
    generation = yield from replaced(request, {**values, **request.format.companions(request.options)})
    return Opened(metadata, generation, now, written=True)


def replaced(request: OpenRequest, values: Mapping[str, bytes]) -> Flow[bytes]:
    """Replace everything by documents; return the generation of the metadata."""
    generations = yield ReplacePrefix(request.path, values, request.check_place)
    if request.key in generations:
        return bytes(generations[request.key])
    stamped = yield Get(request.key)
    value = values[request.key[len(request.path) :]]
    if stamped.value is None or bytes(stamped.value) != value:
        raise AlreadyExistsError(f"Error writing {request.name}: another array was created there meanwhile")
    return bytes(stamped.generation)


def _write(request: OpenRequest, metadata: Metadata, if_equal: bytes, now: float) -> Flow[Opened | None]:
    """Write the metadata of a new array; None if other metadata exists by now."""
    request.check_place()
    written = yield Put(request.key, request.format.encode(metadata), if_equal)
    if written is None:
        return None
    for key, value in request.format.companions(request.options).items():
        yield Put(request.path + key, value, MISSING_GENERATION)
    return Opened(metadata, written, now, written=True)


def _created_at_once(request: OpenRequest) -> Flow[Opened | None]:
    """Create an array without reading first; None if reading is necessary."""
    now = time.time()
    try:
        metadata = _create(request)
        if request.format.contained:
            yield from _check_holds_nothing(request)
    except ChunkwiseError:  # raised again later, unless there is an array
        return None
    return (yield from _write(request, metadata, MISSING_GENERATION, now))


def _check_holds_nothing(request: OpenRequest) -> Flow[None]:
    """Raise AlreadyExistsError if there are directories that can't belong to an array's blocks."""
    below = yield ListChildren(request.path)
    names = sorted(name[len(request.path) :] for name in below.prefixes)
    others = [name for name in names if not is_number(name) and not is_staging(name)]
    if others:
        raise AlreadyExistsError(f"it is a group, which holds {dump(others[0])}")


def _renewed(request: OpenRequest, known: Opened) -> Flow[Opened | None]:
    """Return the known metadata with the current time; None if the document has changed or is gone."""
    stamped = (yield Get(request.key, known.generation or None)) if request.seen is None else request.seen
    if not known.generation or stamped.generation != known.generation:
        return None
    return known._replace(time=stamped.time)


def _check_container(request: OpenRequest, document: JSON) -> None:
    """Raise if the array itself is a container with a version that can't be read."""
    with prefixed(f"Error reading {request.name}", ChunkwiseError):
        request.format.check_container(document)


def check_container(request: OpenRequest, path: str) -> Flow[None]:
    """Raise if the container of an array has a version that can't be read."""
    key = request.format.container_key(path)
    if key is None:
        return
    try:
        stamped = yield Get(key)
    except PermissionDeniedError:
        return  # only the array itself must be readable
    with prefixed(f"Error reading {dump(key)}", ChunkwiseError):
        if stamped.value is not None:
            request.format.check_container(request.format.parse_document(bytes(stamped.value)))


def read_metadata(request: OpenRequest, known: Opened | None = None) -> Flow[Opened]:
    """Read and parse the metadata without checking it; it may still be `known`."""
    stamped = yield Get(request.key, None if known is None else known.generation or None)
    if known is not None and known.generation and stamped.generation == known.generation:
        return known._replace(time=stamped.time, written=False)
    if stamped.value is None:
        raise FailedPreconditionError(f"Metadata at {request.name} does not exist")
    metadata = _parse(request, _document(request, bytes(stamped.value)))
    return Opened(metadata, stamped.generation, stamped.time)


def _create(request: OpenRequest) -> Metadata:
    with prefixed('Cannot create using specified "metadata" and schema', ChunkwiseError):
        return request.format.create(request.constraints, request.options, request.schema)


def _document(request: OpenRequest, raw: bytes) -> JSON:
    try:
        return request.format.parse_document(raw)
    except (ChunkwiseError, ValueError, RecursionError) as e:
        raise FailedPreconditionError(f"Error reading {request.name}: {_text(e)}") from e


def _parse(request: OpenRequest, document: JSON) -> Metadata:
    try:
        return cached_metadata(request.format, document)
    except ChunkwiseError as e:
        raise FailedPreconditionError(f"Error reading {request.name}: {_text(e)}") from e


def _text(error: BaseException) -> str:
    return error.message if isinstance(error, ChunkwiseError) else str(error)


def not_same(request: OpenRequest, known: Metadata, found: Metadata) -> FailedPreconditionError:
    """Return the error for metadata that no longer belongs to the array that was opened."""
    name = request.format.driver
    return FailedPreconditionError(
        f"Updated {name.upper() if name == 'n5' else name} metadata {dump(found.document)} "
        f"is incompatible with existing metadata {dump(known.document)} at {request.name}"
    )


def _new_shape(
    shape: tuple[int, ...],
    inclusive_min: Sequence[int | None],
    exclusive_max: Sequence[int | None],
    *,
    expand_only: bool,
    shrink_only: bool,
) -> tuple[int, ...]:
    """Return the shape after a resize of an array whose origin is 0."""
    out = []
    for dim, (size, lower, upper) in enumerate(zip(shape, inclusive_min, exclusive_max, strict=True)):
        if lower not in (None, 0):
            raise FailedPreconditionError(
                f"Cannot change inclusive lower bound of output dimension {dim}, "
                f"which is fixed at 0, to {lower}"
            )
        wanted = size if upper is None else upper
        if wanted < 0:
            raise InvalidArgumentError(
                f"Invalid resize request for output dimension {dim}: "
                f"expected an upper bound of at least 0, got {wanted}"
            )
        for change, limit, forbidden in (
            ("expand", "shrink_only", shrink_only and wanted > size),
            ("shrink", "expand_only", expand_only and wanted < size),
        ):
            if forbidden:
                raise FailedPreconditionError(
                    f"Resize operation would {change} output dimension {dim} "
                    f"from [0, {size}) to [0, {wanted}) but `{limit}` was specified"
                )
        out.append(wanted)
    return tuple(out)


def resize_array(
    request: OpenRequest,
    known: Opened,
    inclusive_min: Sequence[int | None],
    exclusive_max: Sequence[int | None],
    *,
    expand_only: bool = False,
    shrink_only: bool = False,
    at_once: bool = False,
) -> Flow[tuple[Opened, tuple[int, ...]]]:
    """Write metadata with a new shape; return it, and the shape before.

    With `at_once`, it is written on condition of the known generation, and read only if that fails.  The
    store must compare generations when it writes, not later as in a transaction.
    """
    wanted = partial(
        _new_shape,
        inclusive_min=inclusive_min,
        exclusive_max=exclusive_max,
        expand_only=expand_only,
        shrink_only=shrink_only,
    )
    if at_once and known.generation != UNKNOWN_GENERATION:
        now = time.time()
        shape = before = known.metadata.shape
        with suppress(ChunkwiseError):  # the stored shape may cause no error
            shape = wanted(before)
        if shape != before:
            written = yield from _write_shape(request, known._replace(time=now), shape)
            if written is not None:
                return written, before
    losses = Losses(lambda: request.name)
    while True:
        current = yield from read_metadata(request, known)
        if not request.format.same_but_resized(known.metadata, current.metadata):
            raise not_same(request, known.metadata, current.metadata)
        before = current.metadata.shape
        with prefixed(f"Error writing {request.name}", ChunkwiseError):
            shape = wanted(before)
        if shape == before:
            return current, before
        written = yield from _write_shape(request, current, shape)
        if written is not None:
            return written, before
        losses.add(current.generation)


def _write_shape(request: OpenRequest, current: Opened, shape: tuple[int, ...]) -> Flow[Opened | None]:
    """Write the metadata with another shape; None if it is no longer current."""
    metadata = current.metadata.resized(shape)
    written = yield Put(request.key, request.format.encode(metadata), current.generation)
    return None if written is None else Opened(metadata, written, current.time, written=True)
