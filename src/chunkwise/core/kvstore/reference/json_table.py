"""Reference files in JSON, as kerchunk and VirtualiZarr write them.

Specification
-------------
https://fsspec.github.io/kerchunk/spec.html , version 0 (a bare object of references) and version 1
(``version``, ``templates``, ``gen``, ``refs``).

A reference is text (the value itself, encoded after ``base64:``), an object (JSON as the value), ``[url]``
for a whole value, or ``[url, offset, length]``.  References are checked when they are used.

Templates in reference files: ``{{u}}/{{i * 100}}.nc``.

Specification: fsspec, "Reference file system", version 1.  Its templates are Jinja2's.  Only what reference
files use is evaluated here: names, calls of templates with keyword arguments, and ``+ - * // %`` on integers.
Everything else is refused, so no template runs code or takes long.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from math import prod
from typing import TypeAlias

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
from chunkwise.core.kvstore.reference.table import (
    LARGEST_OFFSET,
    Part,
    Reference,
    SortedKeys,
    Table,
    expect_part,
)
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    SpecError,
    TooLargeError,
    UnsupportedError,
    prefixed,
)

__all__ = ["JsonTable", "Scope", "render"]


Scope: TypeAlias = Mapping[str, "str | int"]

_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_LONGEST = 1 << 16  # characters of a template and of its result, which is longer than any URL
_LONGEST_EXPRESSION = 1000  # characters of an expression


def render(template: str, templates: Mapping[str, str], scope: Scope) -> str:
    """Return the text of a template; `scope` has the numbers and texts of names."""
    if "{{" not in template:
        return template
    if len(template) > _LONGEST:
        raise SpecError(f"template has {len(template)} characters, expected at most {_LONGEST}")
    out: list[str] = []
    size = end = 0
    for hole in _HOLE.finditer(template):
        value = _value(_parse(hole[1]).body, templates, scope, template)
        for part in (template[end : hole.start()], str(value)):
            out.append(part)
            size += len(part)
        end = hole.end()
        if size > _LONGEST:
            raise SpecError(f"template {dump(template[:80])} expands to more than {_LONGEST} characters")
    return "".join((*out, template[end:]))


@lru_cache(maxsize=1024)
def _parse(text: str) -> ast.Expression:
    if len(text) > _LONGEST_EXPRESSION:
        raise SpecError(f"expression has {len(text)} characters, expected at most {_LONGEST_EXPRESSION}")
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(f"invalid expression in a template: {dump(text)}") from None


def _value(node: ast.expr, templates: Mapping[str, str], scope: Scope, template: str) -> str | int:
    if isinstance(node, ast.Constant) and type(node.value) in (str, int):
        value: str | int = node.value  # type: ignore[assignment]
        return value
    if isinstance(node, ast.Name):
        if node.id in scope:
            return scope[node.id]
        if node.id in templates:
            text = templates[node.id]
            if "{{" in text:
                raise SpecError(f"template {dump(node.id)} needs arguments: {dump(text[:80])}")
            return text
        raise SpecError(f"unknown name {dump(node.id)} in template {dump(template[:80])}")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        if node.func.id not in templates:
            raise SpecError(f"unknown template {dump(node.func.id)} in {dump(template[:80])}")
        names = [keyword.arg for keyword in node.keywords]
        if None not in names:
            values = [_value(keyword.value, templates, scope, template) for keyword in node.keywords]
            # A template sees only its arguments, no other template, so there are no cycles.
            return render(templates[node.func.id], {}, dict(zip(map(str, names), values, strict=True)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, templates, scope, template)
    if isinstance(node, ast.BinOp):
        left = _number(node.left, templates, scope, template)
        right = _number(node.right, templates, scope, template)
        return _checked(_operate(node.op, left, right, template))
    raise SpecError(
        f"unsupported expression {dump(ast.unparse(node)[:80])} in template {dump(template[:80])}: expected "
        "names, calls of templates with arguments by name, and + - * // % on integers"
    )


def _number(node: ast.expr, templates: Mapping[str, str], scope: Scope, template: str) -> int:
    value = _value(node, templates, scope, template)
    if not isinstance(value, int):
        raise SpecError(f"expected an integer, not {dump(value[:80])}, in template {dump(template[:80])}")
    return _checked(value)


def _checked(value: int) -> int:
    if abs(value) > LARGEST_OFFSET:
        raise SpecError(f"integer in a template is out of range: expected at most {LARGEST_OFFSET}")
    return value


def _operate(operator: ast.operator, left: int, right: int, template: str) -> int:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() | ast.Mod() if right:
            return left // right if isinstance(operator, ast.FloorDiv) else left % right
    raise SpecError(
        f"unsupported arithmetic in template {dump(template[:80])}: expected + - * // % on integers"
    )


_MOST_GENERATED = 4_000_000  # a few bytes of templates may generate many; at 350 bytes each, 1.4 GB


class JsonTable(Table):
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
            with prefixed(f'Error parsing object member "gen", entry {number}', ChunkwiseError):
                for key, reference in _generate(entry, self._templates, _MOST_GENERATED - generated):
                    refs[key] = reference
                    generated += 1
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
