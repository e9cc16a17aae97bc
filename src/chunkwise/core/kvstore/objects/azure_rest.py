"""Requests to a container of Azure, where they differ from those to S3: listings, parts, signatures."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any
from xml.etree import ElementTree

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.objects.azure_keys import AzureKey, signed_by_azure
from chunkwise.core.kvstore.objects.key_source import KeySource
from chunkwise.core.kvstore.objects.rest_answer import (
    Names,
    Page,
    bad_page,
    check_below,
    document,
    name_of,
    text_in,
)
from chunkwise.core.kvstore.objects.rest_bucket import Dialect, Pairs, Query, RestBucket
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.web.request import digits_in

__all__ = ["AzureDialect", "AzureRest"]

_VERSION = "2023-11-03"


class AzureDialect(Dialect):
    """Requests to Azure."""

    mark_header = "x-ms-meta-chunkwise_write"

    def __init__(self, url: str, source: KeySource[AzureKey] | None, account: str) -> None:
        super().__init__(url, source)
        self._account = account

    def signed(self, method: str, url: str, headers: Pairs, body: Buffer | None) -> tuple[str, Pairs, Any]:
        """Return the URL and the headers of a request with date and signature, and the credentials used."""
        dated = [*headers, ("x-ms-date", formatdate(usegmt=True)), ("x-ms-version", _VERSION)]
        return super().signed(method, url, dated, body)

    def _sign(
        self, method: str, url: str, headers: Pairs, body: Buffer | None, keys: AzureKey
    ) -> tuple[str, Pairs]:
        if keys.account_key:
            length = memoryview(body or b"").nbytes
            told = signed_by_azure(method, url, headers, length, self._account, keys.account_key)
            return url, [*headers, ("Authorization", told)]
        if keys.token:
            return url, [*headers, ("Authorization", f"Bearer {keys.token}")]
        return f"{url}{'&' if '?' in url else '?'}{keys.sas.lstrip('?')}", headers


class AzureRest(RestBucket):
    """One container."""

    written = (("x-ms-blob-type", "BlockBlob"),)

    def _put_in_parts(self, key: str, value: memoryview, size: int) -> dict[str, Any]:
        def part(number: int) -> str:
            name = base64.b64encode(b"%08d" % number).decode()
            query: Query = [("comp", "block"), ("blockid", name)]
            self._insist("PUT", key, (201,), query=query, body=value[number * size : (number + 1) * size])
            return name

        names = self._each(part, range(-(-len(value) // size)))
        body = "".join(f"<Latest>{name}</Latest>" for name in names)
        body = f"<?xml version='1.0' encoding='utf-8'?><BlockList>{body}</BlockList>"
        answer = self._insist("PUT", key, (201,), query=[("comp", "blocklist")], body=body.encode())
        return {"e_tag": answer.headers.get("ETag"), "version": None}

    def _pages(
        self, prefix: str | None, query: Query = (), offset: str | None = None
    ) -> Iterator[tuple[Page, Names]]:
        below, marker = f"{prefix}/" if prefix else "", ""
        seen: set[str] = set()
        while True:
            wanted: list[tuple[str, str | None]] = [("restype", "container"), ("comp", "list"), *query]
            wanted += [("prefix", below)] if below else []
            wanted += [("marker", marker)] if marker else []
            root = document(self._ask("GET", None, (200,), query=wanted), "EnumerationResults")
            blobs = next((item for item in root if name_of(item) == "Blobs"), None)
            if blobs is None:
                raise bad_page("there are no Blobs")
            found = [_entry(item) for item in blobs if name_of(item) == "Blob"]
            entries = [entry for entry in found if offset is None or entry["path"] > offset]
            prefixes = [text_in(item, "Name") for item in blobs if name_of(item) == "BlobPrefix"]
            check_below(below, entries, prefixes)
            marker = text_in(root, "NextMarker")
            if marker in seen:
                raise bad_page(f"there are more keys, and again the marker {dump(marker)}")
            # Accounts with directories list these too.
            yield [entry for entry in entries if entry.pop("type") != "directory"], prefixes
            if not marker:
                return
            seen.add(marker)


def _entry(item: ElementTree.Element) -> dict[str, Any]:
    properties = next((part for part in item if name_of(part) == "Properties"), item)
    key, size = text_in(item, "Name"), digits_in(text_in(properties, "Content-Length"))
    if not key or size is None:
        raise bad_page(f"an entry has the key {dump(key)} and no size")
    kind = text_in(properties, "ResourceType")
    return {"path": key, "size": size, "e_tag": text_in(properties, "Etag") or None, "type": kind}
