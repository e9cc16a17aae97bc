"""The driver ``auto``: the format of an array is detected, by names of metadata or the start of a TIFF file.

There is one request for each candidate, all at the same time if requests take long.  All are always made,
because two formats side by side are an error that must not depend on the order of the requests.

A TIFF file that is a single picture, which TensorStore's driver ``tiff`` opens, is told by its tables alone.
All other files are images of any type and number of pages, and so is a picture with a scale: OME-XML,
ImageJ's metadata, or a resolution in inches or centimetres.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

from chunkwise.core.base.binding import JSON, Members, parse_json
from chunkwise.core.driver.flow import Flow, GetAll
from chunkwise.core.kvstore.protocol import Stamped
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnsupportedError,
)

__all__ = ["AutoSpec", "NoFormatError", "detect_format", "is_one_picture", "is_references", "parse_auto"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutoSpec(DriverSpec):
    """``{"driver": "auto", "kvstore": …}``: opens an existing array, creates nothing."""

    driver: ClassVar[str] = "auto"

    mode: OpenMode
    recheck: Mapping[str, Any] = field(default_factory=dict)  # staleness bounds by name
    # Source of the found array's resources; set in a bound spec.
    live: Context | None = None

    def bind(self, context: Context) -> Self:
        """Return the spec with live resources; the found array's also come from `context`."""
        return super().bind(context if self.live is None else self.live)

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live resources of the kvstore, and its context."""
        return replace(super().bind_inner(context), live=context)

    def strip(self) -> Self:
        """Return the spec without context and bound resources."""
        return replace(super().strip(), live=None)

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with staleness bounds for the found array."""
        return replace(self, recheck={**self.recheck, **bounds})

    @property
    def open_mode(self) -> OpenMode:
        """Open mode of the found array."""
        return OpenMode(open=True)

    def own_mode(self) -> OpenMode:
        """Return the open mode, as far as it is given."""
        return self.mode

    def with_open_mode(self, mode: OpenMode) -> AutoSpec:
        """Return the spec; raise for a mode that would create."""
        if mode.create or mode.delete_existing or mode.assume_metadata or mode.assume_cached_metadata:
            raise InvalidArgumentError(
                "create mode not compatible with format auto-detection: say which format is to be made, "
                f'by "driver" in a JSON spec, or in the URL, such as "{self._suggested()}"'
            )
        return self

    def _suggested(self) -> str:
        kvstore = self.kvstore
        if kvstore is None:
            return "x.zarr|zarr3:"
        place = kvstore.path
        if kvstore.driver != "file":
            try:
                place = kvstore.to_url()
            except UnsupportedError:
                place = "URL"
        return f"{place.rstrip('/')}|{'n5' if place.rstrip('/').endswith('.n5') else 'zarr3'}:"

    def url_suffix(self) -> str:
        """Return ``auto:``."""
        return "auto:"


def parse_auto(members: Members, common: SpecMembers) -> AutoSpec:
    """Take the members of a spec of this driver."""
    return AutoSpec(
        schema=common.schema,
        context=common.context,
        kvstore=common.take_kvstore(members),
        mode=OpenMode(),
    )


class NoFormatError(FailedPreconditionError):
    """There is no array at a path."""


class Signature(NamedTuple):
    """A key that reveals a format."""

    driver: str  # driver id of the format, or of the kvstore
    key: str  # name of its metadata, relative to the array
    fits: Callable[[bytes], bool]  # returns True if the bytes under that key belong to this format


def _any(raw: bytes) -> bool:
    return True


def _document(raw: bytes) -> dict[str, JSON]:
    # "meta" and "info" are common names, so their content decides.
    try:
        document = parse_json(raw)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _zarr1(raw: bytes) -> bool:
    return _document(raw).get("zarr_format") == 1


def is_info(raw: bytes) -> bool:
    """Return True for the ``info`` of a precomputed volume, which other things have too."""
    return "scales" in _document(raw)


def is_references(raw: bytes) -> bool:
    """Return True for references as kerchunk writes them, or the ``.zmetadata`` of a directory of them."""
    document = _document(raw)
    return not document.keys().isdisjoint(("refs", ".zgroup", ".zarray", "record_size"))


SIGNATURES = (
    Signature("n5", "attributes.json", _any),
    Signature("zarr", ".zarray", _any),
    Signature("zarr3", "zarr.json", _any),
    Signature("zarr1", "meta", _zarr1),
    Signature("neuroglancer_precomputed", "info", is_info),
    Signature("ocdbt", "manifest.ocdbt", _any),  # formats of a kvstore that contains the array
)


def detect_format(path: str, describe: Callable[[str], str]) -> Flow[tuple[str, Stamped]]:
    """Return the driver id of the array or kvstore at `path`, and the document that shows it."""
    # The path is empty or ends in "/".
    documents = {}
    # A bucket that may not be listed refuses requests for missing keys, so a refusal says nothing about other
    # keys.
    answers = yield GetAll(tuple(path + signature.key for signature in SIGNATURES), denied=True)
    refusals = [answer for answer in answers if isinstance(answer, PermissionDeniedError)]
    for signature, stamped in zip(SIGNATURES, answers, strict=True):
        if stamped in refusals:
            continue
        if stamped.value is not None and signature.fits(bytes(stamped.value)):
            documents[signature.driver] = stamped
    found = list(documents)
    where = describe(path)
    if not found and refusals:
        raise refusals[0]
    if not found:
        probed = ", ".join(f'"{signature.key}"' for signature in SIGNATURES)
        raise NoFormatError(f"Failed to detect format for {where}: none of {probed} exists")
    if found == ["zarr", "zarr3"]:
        from chunkwise.core.base.public_names import warn_caller  # rarely needed

        warn_caller(
            f"{where} has metadata of Zarr v2 and of Zarr v3; Zarr v3 is used "
            '("|zarr2:" after the path opens Zarr v2)'
        )
        return "zarr3", documents["zarr3"]
    if len(found) > 1:
        names = ["zarr2" if name == "zarr" else name for name in sorted(found)]
        raise FailedPreconditionError(
            f"Multiple possible formats detected for {where}: {{{', '.join(names)}}}; "
            f'say which, by "driver" in a spec, or after the path, such as "|{names[0]}:"'
        )
    return found[0], documents[found[0]]


Read: TypeAlias = Callable[[int, int], bytes]  # returns bytes, from a position and a number

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_FILL_ORDER, _ORIENTATION, _SAMPLES, _PLANAR, _PREDICTOR, _EXTRA, _FORMAT = 266, 274, 277, 284, 317, 338, 339
_DESCRIPTION, _RESOLUTION_UNIT = 270, 296
_TAKEN = (
    _WIDTH,
    _HEIGHT,
    _BITS,
    _COMPRESSION,
    _PHOTOMETRIC,
    _FILL_ORDER,
    _ORIENTATION,
    _SAMPLES,
    _PLANAR,
    _PREDICTOR,
    _EXTRA,
    _FORMAT,
    _RESOLUTION_UNIT,
)
_COMPRESSIONS = (1, 5, 7, 8, 32773, 32946, 50000)  # none, LZW, JPEG, Deflate, PackBits, Deflate, Zstandard
_COLOURS = {1: 1, 2: 3, 6: 3}  # samples of grey, RGB and YCbCr; of others, Pillow changes the values
_ALPHA = 2  # the only further sample that Pillow neither drops nor divides by
_PREDICTED = (5, 8, 32946, 50000)  # other compressions have no predictor, whatever the tag says
_SIZES = {1: "B", 3: "H", 4: "I", 16: "Q"}
_UNITS = (2, 3)  # inch, centimetre
_ASCII = 2
_MOST_ENTRIES = 1000
_DESCRIPTION_NBYTES = 4096  # OME-XML and ImageJ identify themselves before that
_MOST_PIXELS = 1 << 26  # larger pictures are read by tiles


def is_one_picture(read: Read) -> bool:
    """Return True for one page of ``uint8`` that isn't large; False for a damaged file too."""
    try:
        tags = _only_page(read)
    except struct.error:
        return False
    if tags is None or not 0 < tags.get(_WIDTH, 0) * tags.get(_HEIGHT, 0) <= _MOST_PIXELS:
        return False
    n_samples = tags.get(_SAMPLES, 1)
    n_colours = _COLOURS.get(tags.get(_PHOTOMETRIC, -1), -1)
    return (
        (n_samples == n_colours or (n_samples == n_colours + 1 and tags.get(_EXTRA) == _ALPHA))
        and tags.get(_BITS, 1) == 8
        and tags.get(_ORIENTATION, 1) == 1
        and tags.get(_FORMAT, 1) == 1
        and tags.get(_FILL_ORDER, 1) == 1
        and tags.get(_COMPRESSION, 1) in _COMPRESSIONS
        and (tags.get(_PREDICTOR, 1) == 1 or tags.get(_COMPRESSION, 1) in _PREDICTED)
        and (n_samples == 1 or tags.get(_PLANAR, 1) == 1)
        and tags.get(_RESOLUTION_UNIT) not in _UNITS
        and _DESCRIPTION not in tags
    )


def _only_page(read: Read) -> dict[int, int] | None:
    """Return the first values of the only page's tags, including the description if it has a scale."""
    # Return None for several pages.
    head = read(0, 16)
    order = "<" if head[:2] == b"II" else ">"
    is_big = struct.unpack_from(order + "H", head, 2)[0] == 43
    if is_big and order == ">":
        return None  # Pillow can't read it
    count, size, offset = ("Q", 20, "Q") if is_big else ("H", 12, "I")
    (start,) = struct.unpack_from(order + offset, head, 8 if is_big else 4)
    width = struct.calcsize(count)
    (n,) = struct.unpack(order + count, read(start, width))
    if n > _MOST_ENTRIES:
        return None
    table = read(start + width, n * size + struct.calcsize(offset))
    (following,) = struct.unpack_from(order + offset, table, n * size)
    return None if following else _tags(read, table[: n * size], order, size)


def _tags(read: Read, table: bytes, order: str, size: int) -> dict[int, int]:
    count, room = ("Q", 8) if size == 20 else ("I", 4)
    found = {}
    for at in range(0, len(table), size):
        tag, kind, n = struct.unpack_from(f"{order}HH{count}", table, at)
        if tag == _DESCRIPTION and kind == _ASCII and n > room:
            (place,) = struct.unpack(order + ("Q" if room == 8 else "I"), table[at + size - room : at + size])
            text = read(place, min(n, _DESCRIPTION_NBYTES))
            if text.startswith(b"ImageJ=") or b"<OME" in text:
                found[_DESCRIPTION] = 1
            continue
        if tag not in _TAKEN or kind not in _SIZES or n == 0:
            continue
        one, value = order + _SIZES[kind], table[at + size - room : at + size]
        if n * struct.calcsize(one) > room:
            (place,) = struct.unpack(order + ("Q" if room == 8 else "I"), value)
            value = read(place, struct.calcsize(one))
        (found[tag],) = struct.unpack_from(one, value)
    return found
