"""Tests are left out only where the platform lacks what they are about; they assert before they return."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent
# What a condition may look at: the system, what its `os` has, its files.
PLATFORM = {"sys", "os", "hasattr", "Path"}
# An interpreter that the tests can't install, and a module that only CPython's own tests need.
SKIPS = {
    "peer_environment.py: not run: {label} needs CPython {version}, which was not found",
    "engine/test_no_threads.py: this Python was built without its own tests",
}
LEAVING_OUT = {"skip", "importorskip", "skipif", "xfail", "skipTest"}
ASSERTING = {"raises", "warns", "fail", "check_call", "check_output"}


@cache
def modules() -> dict[str, ast.Module]:
    """Return all modules of the tests by their paths."""
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(ROOT.rglob("*.py"))
    }


def name_of(node: ast.AST) -> str:
    """Return the last part of a name, and "" of anything else."""
    return str(getattr(node, "attr", "") or getattr(node, "id", ""))


def given_reason(call: ast.Call) -> str:
    """Return the reason for leaving out, with the fields of a formatted text as they are written."""
    given = [word.value for word in call.keywords if word.arg in ("reason", "msg")] or call.args[:1]
    return ast.unparse(given[0]).removeprefix("f").strip("'\"") if given else ""


def looks_at_the_platform(condition: ast.expr) -> bool:
    """Return True if a condition looks at nothing but the platform."""
    return {node.id for node in ast.walk(condition) if isinstance(node, ast.Name)} <= PLATFORM


def test_only_the_platform_leaves_tests_out() -> None:
    """What an index has is installed, or the test fails."""
    found, wrong = set(), []
    for path, module in modules().items():
        for call in ast.walk(module):
            if not isinstance(call, ast.Call) or name_of(call.func) not in LEAVING_OUT:
                continue
            if name_of(call.func) != "skipif":
                found.add(f"{path}: {given_reason(call)}")
            elif not looks_at_the_platform(call.args[0]) or not given_reason(call):
                wrong.append(f"{path}: {ast.unparse(call)}")
    assert (found, wrong) == (SKIPS, [])


def asserts_itself(node: ast.AST) -> bool:
    """Return True if code asserts something without the help of other functions."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert):
            return True
        if (
            isinstance(inner, ast.Raise)
            and inner.exc is not None
            and "AssertionError" in ast.unparse(inner.exc)
        ):
            return True
        if isinstance(inner, ast.Call):
            name = name_of(inner.func)
            checks = any(word.arg == "check" and ast.unparse(word.value) == "True" for word in inner.keywords)
            if name in ASSERTING or name.startswith("assert_") or checks:
                return True
    return False


@cache
def asserting() -> set[str]:
    """Return the names of functions and classes of the tests that assert something, or use one that does."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    known = [node for module in modules().values() for node in module.body if isinstance(node, kinds)]
    found = {node.name for node in known if not node.name.startswith("test") and asserts_itself(node)}
    used = [(node.name, names_in(node)) for node in known if node.name not in found]
    while more := {name for name, names in used if name not in found and not names.isdisjoint(found)}:
        found |= more
    return found


def names_in(node: ast.AST) -> set[str]:
    """Return the names, but not those of attributes, that code refers to."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def asserts(node: ast.AST) -> bool:
    """Return True if code asserts something, itself or through helpers."""
    return asserts_itself(node) or not names_in(node).isdisjoint(asserting())


def early_returns(body: Iterable[ast.stmt]) -> Iterator[int]:
    """Yield the lines at which a test returns before it has asserted anything."""
    for statement in body:
        if isinstance(statement, ast.Return):
            yield statement.lineno
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(statement, ast.If) and not asserts(statement.test):
            yield from early_returns(statement.body)
            yield from early_returns(statement.orelse)
        elif isinstance(statement, ast.Try) and not any(map(asserts, statement.body)):
            for block in (
                statement.body,
                *(handler.body for handler in statement.handlers),
                statement.orelse,
            ):
                yield from early_returns(block)
        elif asserts(statement):
            return


def test_each_test_asserts_before_it_returns() -> None:
    """A case that a test has nothing to say of is no parameter, and no example: `hypothesis.reject`."""
    early, never = [], []
    for path, module in modules().items():
        for test in ast.walk(module):
            if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
                continue
            if not asserts(test):
                never.append(f"{path}: {test.name}")
            early += [f"{path}:{line} {test.name}" for line in early_returns(test.body)]
    assert (early, never) == ([], [])
