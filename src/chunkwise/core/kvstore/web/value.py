"""Values in answers of HTTP servers: ranges, compression that was not asked for, and pages in their place."""

from __future__ import annotations

import re
import zlib

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.byte_range import resolve_range
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.value_bound import PageInsteadError
from chunkwise.core.kvstore.web.request import Answer
from chunkwise.errors import StorageError, UnavailableError

__all__ = ["CONTENT_RANGE", "cut", "decoded", "range_header"]

CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18})")
_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype html|html)\b", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(rb"<title>([^<]*)</title>", re.IGNORECASE)


def range_header(start: int, stop: int | None) -> str:
    """Return the header ``Range``; negative numbers count from the end."""
    if start < 0:
        return f"bytes={start}"
    if stop is None:
        return f"bytes={start}-"
    return f"bytes={start}-{max(stop - 1, start)}"  # empty ranges can't be expressed: one byte is dropped


def cut(answer: Answer, start: int, stop: int | None) -> tuple[Buffer, int]:
    """Return the requested bytes of an answer with status 206, and the size of the whole value."""
    found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    # An empty part may be told as ``bytes 5-4/5``.
    if found is None or found[1] is None or not int(found[1]) - 1 <= int(found[2]) < int(found[3]):
        raise UnavailableError(
            f"Failed to read {answer.url}: HTTP status 206 without a valid Content-Range: "
            f"{answer.headers.get('Content-Range')!r}"
        )
    first, last, size = map(int, found.groups())
    begin, end = resolve_range(start, stop, size)
    value = memoryview(answer.body)[begin - first : end - first]
    if begin < first or len(value) != end - begin or len(answer.body) != last + 1 - first:
        raise UnavailableError(
            f"Failed to read {answer.url}: the server sent bytes {found[1]}-{found[2]}, "
            f"expected {begin}-{end - 1}"
        )
    return value, size


def decoded(answer: Answer, key: str, largest: int) -> Answer:
    """Return an answer with the decoded value; raise if the server has sent something else."""
    coding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if answer.status not in (200, 206) or not answer.body:
        return answer
    if coding not in ("identity", ""):
        body = _unzipped(answer.body, largest) if answer.status == 200 else None
        if coding not in ("gzip", "x-gzip") or body is None:
            what = "a part of " if answer.status == 206 else ""
            raise StorageError(
                f"Failed to read {answer.url}: the server sent {what}the value in Content-Encoding "
                f"{dump(coding)}, though it was asked for the value as it is"
            )
        answer = answer._replace(body=body)
    is_page = answer.headers.get("Content-Type", "").lower().startswith("text/html")
    if is_page and not key.endswith((".html", ".htm")) and _PAGE.match(answer.body):
        title = _TITLE.search(bytes(answer.body[:20_000]))
        shown = "" if title is None else f" {dump(title[1].decode('utf-8', 'replace').strip()[:80])}"
        raise PageInsteadError(
            f"Failed to read {answer.url}: the server sent an HTML page{shown} with status "
            f"{answer.status} in place of the value, such as a login or error page; check the URL, "
            "and whether it has to be signed in to"
        )
    return answer


def _unzipped(body: Buffer, most: int) -> bytes | None:
    """Return the content of a gzip stream; None for other data, or content longer than `most`."""
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        out = unzip.decompress(body, most)
    except zlib.error:
        return None
    return out if unzip.eof and not unzip.unused_data else None
