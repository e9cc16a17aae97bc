"""Answers of object stores: failures, dates, and documents in XML."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import largest_value
from chunkwise.core.kvstore.objects.failure import (
    Failure,
    RequestFailedError,
    failure_of_answer,
    failure_of_code,
)
from chunkwise.core.kvstore.web.connection import shown_place, shown_url
from chunkwise.core.kvstore.web.request import REDIRECTS, Answer, NoAnswerError, decoded, digits_in

__all__ = [
    *(
        "Names",
        "Page",
        "bad_page",
        "check_below",
        "date_of",
        "document",
        "failure_in",
        "name_of",
        "no_answer",
    ),
    *("s3_entry", "text_in"),
]

Page = list[dict[str, Any]]
Names = list[str]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def date_of(text: str) -> datetime:
    """Return the time in a header, the epoch if there is none."""
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return _EPOCH


def no_answer(url: str, error: NoAnswerError) -> Failure:
    """Return the failure of a request to a URL that was not answered."""
    parts = urlsplit(shown_url(url))
    return Failure(
        "timeout" if error.timed_out else "unreachable",
        f"{parts.scheme}://{parts.netloc}: {error}",
        again="unless conditional" if error.connected else "always",
        connected=error.connected,
    )


def failure_in(answer: Answer) -> Failure:
    """Return the failure that an answer means."""
    get = answer.headers.get
    said = bytes(answer.body[:4000]).decode("utf-8", "replace")
    if not said and (code := get("x-ms-error-code")):  # of an answer to HEAD
        said = f"<Code>{code}</Code>"
    found = failure_of_answer(answer.status, said)
    if answer.status in REDIRECTS:
        told = shown_place(get("Location", ""))
        where = f"; the server redirects to {told}, which is not followed" if told else ""
        found = replace(
            found,
            kind="region",
            detail=found.detail + where,
            region=found.region or get("x-amz-bucket-region", ""),
        )
    seconds = digits_in(get("Retry-After", ""))
    return found if seconds is None else replace(found, at_least=float(seconds))


def name_of(element: ElementTree.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def text_in(element: ElementTree.Element, name: str) -> str:
    """Return the text of a member, empty if there is none."""
    return next((item.text or "" for item in element if name_of(item) == name), "")


def check_below(below: str, entries: Page, prefixes: Names) -> None:
    """Raise RequestFailedError for a page with keys of another directory."""
    for name in (*(entry["path"] for entry in entries), *prefixes):
        if not name.startswith(below):
            raise bad_page(f"the key {dump(name)} is not below {dump(below)}")


def bad_page(why: str) -> RequestFailedError:
    """Return the error for an answer that lacks something, or has too much."""
    return RequestFailedError(Failure("other", f"the server's answer is not whole: {why}"))


def document(answer: Answer, name: str) -> ElementTree.Element:
    """Return the root of an answer in XML; raise RequestFailedError if it is anything else."""
    answer = decoded(answer, "", largest_value())  # an HTML page is an error that has its title
    try:
        root = ElementTree.fromstring(bytes(answer.body))
    except (ElementTree.ParseError, ValueError) as e:
        start = dump(bytes(answer.body[:60]).decode("utf-8", "replace"))
        raise RequestFailedError(
            Failure("other", f"expected {name} in XML, got {start} in {len(answer.body)} bytes: {e}")
        ) from e
    if name_of(root) == "Error":
        raise RequestFailedError(failure_of_code(text_in(root, "Code")))
    if name_of(root) != name:
        raise RequestFailedError(Failure("other", f"expected {name} in XML, got {name_of(root)}"))
    return root


def s3_entry(item: ElementTree.Element) -> dict[str, Any]:
    """Return an entry of a listing of S3."""
    key, size = text_in(item, "Key"), digits_in(text_in(item, "Size"))
    if not key or size is None:
        raise bad_page(f"an entry has the key {dump(key)} and the size {dump(text_in(item, 'Size'))}")
    return {"path": key, "size": size, "e_tag": text_in(item, "ETag") or None}
