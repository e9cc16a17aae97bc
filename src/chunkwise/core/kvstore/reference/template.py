"""Templates in reference files: ``{{u}}/{{i * 100}}.nc``.

Specification: fsspec, "Reference file system", version 1.  Its templates are Jinja2's.  Only what reference
files use is evaluated here: names, calls of templates with keyword arguments, and ``+ - * // %`` on integers.
Everything else is refused, so no template runs code or takes long.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.reference.table import LARGEST_OFFSET
from chunkwise.errors import SpecError

__all__ = ["Scope", "render"]

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
