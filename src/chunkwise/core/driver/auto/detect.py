"""Detection of the format at a path, by the names of its metadata.

There is one request for each candidate, all at the same time if requests take long.  All are always made,
because two formats side by side are an error that must not depend on the order of the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chunkwise.core.base.binding import JSON, parse_json
from chunkwise.core.driver.flow import Flow, GetAll
from chunkwise.core.kvstore.protocol import Stamped
from chunkwise.errors import FailedPreconditionError, PermissionDeniedError

__all__ = ["NoFormatError", "detect_format", "is_references"]


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
