"""How modules depend on each other, where import-linter doesn't see it: texts, circles, neighbours."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from chunkwise.core.driver.tree_formats import DRIVERS, FORMATS

SOURCE = Path(__file__).parents[2] / "src"

# Inner modules of the core that each neighbour imports beside the public names and the door.  These figures
# only fall; import-linter has the reasons.
INNER_MODULES = {
    "cli": 11,
    "copying": 97,
    "dask": 0,
    "groups": 39,
    "hdmf": 16,
    "images": 6,
    "n5": 0,
    "napari": 0,
    "notebook": 0,
    "ocdbt": 0,
    "testing": 5,
    "xarray": 0,
    "z5py": 0,
    "zarr": 0,
}

# What a format has or is called is known to its own record in `driver/`, which others ask.  What is left
# are the catalogue, words of interfaces such as z5py's or of options, and tables of functions by format.
COMPARISONS = 36

BY_TEXT = ("import_module", "__import__")

# Modules that load what is named by an argument, a table, or a registry.
LOADERS = {
    "chunkwise.cli.main",
    "chunkwise.core.base.extras",
    "chunkwise.core.base.public_names",
    "chunkwise.core.base.registry",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Return all modules by their names."""
    found = {}
    for path in sorted((SOURCE / "chunkwise").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def imports(name: str) -> Iterator[str]:
    """Yield the modules that a module imports, wherever in it; what only type checkers follow too."""
    known = modules()
    for node in ast.walk(known[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (path if path in known else str(node.module) for path in inner)


def room(name: str) -> str:
    """Return the folder, or the file outside of folders, that a module is in; in the core, the room there."""
    return ".".join(name.split(".")[: 3 if name.startswith("chunkwise.core.") else 2])


def imported_texts(tree: ast.Module) -> Iterator[str]:
    """Yield the text with which each import by text begins; of one that begins otherwise, the code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in BY_TEXT:
            code = ast.unparse(node.args[0])
            text = re.match(r"f?['\"]([\w.{}]*)", code)
            yield text[1] if text else f"{{{code}}}"


def is_foreign(text: str, name: str) -> bool:
    """Return True if a text that `name` imports means a module of another room, or may mean one."""
    own = text.replace("{__name__}", name)
    return own.startswith("{") or (own.startswith("chunkwise.") and room(own) != room(name))


def test_no_module_of_another_room_is_imported_by_text() -> None:
    """A layer that uses one above it asks `catalogue.hooks`; optional packages are loaded by `extras`."""
    texts = {name: list(imported_texts(tree)) for name, tree in modules().items() if name not in LOADERS}
    assert texts["chunkwise.hdmf.stand_in"] == ["chunkwise.hdmf.{module}"]
    foreign = {name: text for name, found in texts.items() for text in found if is_foreign(text, name)}
    assert foreign == {}


@pytest.mark.parametrize("text", ["chunkwise.dask.convert", "chunkwise.{room}", "{module}"])
def test_texts_that_are_refused(text: str) -> None:
    assert is_foreign(text, "chunkwise.core.api.array_view")


@pytest.mark.parametrize("neighbour", INNER_MODULES)
def test_a_neighbour_imports_no_more_of_the_core(neighbour: str) -> None:
    inner = {
        path
        for name in modules()
        if room(name) == f"chunkwise.{neighbour}"
        for path in imports(name)
        if path.startswith("chunkwise.core.")
    }
    assert len(inner) <= INNER_MODULES[neighbour], sorted(inner)


def compared(node: ast.AST) -> list[ast.AST]:
    """Return what is compared by a node: operands, or members of those; the keys of a table; patterns."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        return [one for operand in operands for one in (operand, *getattr(operand, "elts", ()))]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return list(ast.walk(node.pattern)) if isinstance(node, ast.match_case) else []


def comparisons(tree: ast.Module) -> list[str]:
    """Return the comparisons with names of formats in a module, each by what is compared."""
    names = {*DRIVERS, *FORMATS}
    nodes = [node for node in ast.walk(tree) if not names.isdisjoint(map(constant, compared(node)))]
    return [ast.unparse(node.pattern if isinstance(node, ast.match_case) else node) for node in nodes]


def constant(node: ast.AST) -> object:
    """Return the value of a literal, None of anything else."""
    return node.value if isinstance(node, ast.Constant) else None


def test_formats_are_not_told_by_their_names() -> None:
    """A module outside `driver/` asks the record of a format what it has, instead of which it is."""
    found = {
        name: comparisons(tree) for name, tree in modules().items() if room(name) != "chunkwise.core.driver"
    }
    assert sum(map(len, found.values())) <= COMPARISONS, {name: some for name, some in found.items() if some}


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ('format == "zarr3"', 1),
        ('a if format in ("n5", "zarr2") else b', 1),
        ('format not in {"zarr"}', 1),
        ('{"zarr1": 1, "n5": 2}[format]', 1),
        ('match format:\n    case "n5" | "zarr2":\n        pass', 1),
        ('find("zarr") is None', 0),
        ('made["zarr3"] = make("n5")', 0),
    ],
)
def test_comparisons_with_names_of_formats_are_found(code: str, n: int) -> None:
    assert len(comparisons(ast.parse(code))) == n


def circles() -> list[list[str]]:
    """Return the sets of modules of which each leads to each by imports (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    pending: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        pending.append(name)
        for path in imports(name) if name != "chunkwise" else ():  # the package only hands on names
            if path not in order:
                visit(path)
            if path in pending:
                lowest[name] = min(lowest[name], lowest[path])
        if lowest[name] == order[name]:
            circle = pending[pending.index(name) :]
            del pending[pending.index(name) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in modules():
        if name not in order:
            visit(name)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports that only type checkers follow count: a module is understood with those that it names."""
    assert circles() == []
