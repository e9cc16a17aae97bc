"""Reference files in JSON, as kerchunk and VirtualiZarr write them.

Specification
-------------
https://fsspec.github.io/kerchunk/spec.html , version 0 (a bare object of references) and version 1
(``version``, ``templates``, ``gen``, ``refs``).

A reference is text (the value itself, encoded after ``base64:``), an object (JSON as the value), ``[url]``
for a whole value, or ``[url, offset, length]``.  References are checked when they are used.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_array,
    expect_int,
    expect_object,
    expect_string,
    parse_json,
)
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import Buffer, Children
from chunkwise.core.kvstore.reference.table import Part, Reference, SortedKeys, expect_part
from chunkwise.core.kvstore.reference.template import Scope, render
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    SpecError,
    TooLargeError,
    UnsupportedError,
    prefix,
)

__all__ = ["JsonTable"]

_MOST_GENERATED = 4_000_000  # a few bytes of templates may generate many; at 350 bytes each, 1.4 GB


class JsonTable:
    """The references of a JSON file."""

    def __init__(self, raw: Buffer) -> None:
        try:
            document = parse_json(bytes(raw))
        except ValueError as e:
            raise DataCorruptionError(f"reference file is not JSON: {e}") from None
        if not isinstance(document, dict):
            raise DataCorruptionError(f"reference file is not a JSON object: {repr(document)[:80]}")
        self._templates: dict[str, str] = {}
        self._refs: Mapping[str, JSON] = document
        self._keys: SortedKeys | None = None
        if "version" in document:
            self._read_version_1(document)

    def _read_version_1(self, document: dict[str, JSON]) -> None:
        version = document["version"]
        if type(version) is not int or version != 1:
            raise UnsupportedError(f"reference file of version {repr(version)[:40]}, expected 0 or 1")
        templates = expect_object(document.get("templates", {}))
        for name, text in templates.items():
            if not isinstance(text, str):
                raise SpecError(f"template {dump(name)}: expected string, received {repr(text)[:80]}")
        self._templates = dict(templates)
        refs: dict[str, JSON] = dict(expect_object(document.get("refs", {})))
        generated = 0
        for number, entry in enumerate(expect_array(document.get("gen", []))):
            try:
                for key, reference in _generate(entry, self._templates, _MOST_GENERATED - generated):
                    refs[key] = reference
                    generated += 1
            except ChunkwiseError as e:
                raise prefix(e, f'Error parsing object member "gen", entry {number}') from None
        self._refs = refs

    def find(self, key: str) -> Reference | None:
        """Return the reference of `key`, None if there is none."""
        if key not in self._refs:
            return None
        value = self._refs[key]
        if isinstance(value, str):
            return _inline(key, value)
        if isinstance(value, dict):
            return json.dumps(value).encode()
        if not isinstance(value, list) or len(value) not in (1, 3):
            raise DataCorruptionError(
                f"Invalid reference of {dump(key)}: expected text, an object, [url] or "
                f"[url, offset, length], received {repr(value)[:80]}"
            )
        url, *span = value
        if isinstance(url, str):
            try:
                url = render(url, self._templates, {})
            except SpecError as e:
                raise DataCorruptionError(f"Invalid reference of {dump(key)}: {e.message}") from None
        return expect_part(key, url, *span) if span else expect_part(key, url)

    def list(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        return iter(self._sorted().between(KeyRange.between(start, stop)))

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        return self._sorted().children(prefix)

    def _sorted(self) -> SortedKeys:
        if self._keys is None:
            self._keys = SortedKeys(list(self._refs))
        return self._keys

    def note(self, prefix: str) -> str:
        """Return an empty text: no other library reads the array."""
        return ""

    def some_url(self) -> str | None:
        """Return the URL of the first reference that has one."""
        for key, value in self._refs.items():
            if isinstance(value, list):
                try:
                    found = self.find(key)
                except ChunkwiseError:
                    return None
                return found.url if isinstance(found, Part) else None
        return None


def _inline(key: str, text: str) -> bytes:
    if not text.startswith("base64:"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(text[7:], validate=True)
    except ValueError as e:
        raise DataCorruptionError(f"Invalid reference of {dump(key)}: not base64: {e}") from None


def _generate(entry: JSON, templates: Mapping[str, str], most: int) -> Iterator[tuple[str, list[JSON]]]:
    """Yield the references that an entry of ``gen`` generates."""
    members = Members(expect_object(entry))
    key = members.take("key", expect_string)
    url = members.take("url", expect_string)
    offset = members.take("offset", _text, None)
    length = members.take("length", _text, None)
    dimensions = members.take("dimensions", expect_object)
    members.finish()
    if (offset is None) != (length is None):
        raise SpecError('Expected both "offset" and "length", or neither')
    values = {name: _values(name, value) for name, value in dimensions.items()}
    if prod(map(len, values.values())) > most:
        raise TooLargeError(f"stands for more than {_MOST_GENERATED} references")
    for some in product(*values.values()):
        scope: Scope = dict(zip(values, some, strict=True))
        where = [render(url, templates, scope)]
        if offset is None or length is None:
            yield render(key, templates, scope), where
        else:
            span = [_whole_number(render(text, templates, scope)) for text in (offset, length)]
            yield render(key, templates, scope), [*where, *span]


def _text(value: JSON) -> str:
    return str(expect_int(value)) if isinstance(value, int) else expect_string(value)


def _whole_number(text: str) -> int:
    if len(text) > 20 or not text.strip().lstrip("-").isdecimal():
        raise SpecError(f"Expected an integer, but received: {dump(text[:80])}")
    return int(text)


def _values(name: str, value: JSON) -> range | list[JSON]:
    if isinstance(value, list):
        if not all(type(item) in (int, str) for item in value):
            raise SpecError(f"dimension {dump(name)}: expected integers and strings")
        return value
    members = Members(expect_object(value))
    start = members.take("start", expect_int, 0)
    stop = members.take("stop", expect_int)
    step = members.take("step", expect_int, 1)
    members.finish()
    if step == 0 or max(abs(start), abs(stop), abs(step)) > 1 << 62:
        raise SpecError(f"dimension {dump(name)}: expected a step that isn't 0, and integers below 2**62")
    found = range(start, stop, step)
    if (stop - start) // step > _MOST_GENERATED:
        raise TooLargeError(f"dimension {dump(name)} has more than {_MOST_GENERATED} values")
    return found
