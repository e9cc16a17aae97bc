"""Places that delete what is there before they know that something can be put in its place: there are none.

``python tests/trees/test_nothing_deletes_first.py`` prints them and their number.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "chunkwise"

CALLS = (
    "delete_range",
    "delete_where",
    "delete_directory",
    "delete_all_below",
    "delete_but",
    "delete_below",
    "delete_own",
    "delete_wanted_below",
)
"""Functions and methods that delete all that is at a place."""

ALLOWED = {
    # The mechanism.
    "core/kvstore/places/take_place.py": "deletes the old when the new is whole",
    "core/trees/replacement.py": "discards the new, and what was written beside an archive",
    "core/trees/key_ownership.py": "is what deletes keys of nodes alone",
    # What is asked to delete, and puts nothing there.
    "core/trees/change.py": "deletes and moves nodes",
    "core/api/kvstore.py": "is the method of the public kvstore",
    "zarr/store.py": "is the method of zarr-python's store",
    # What deletes only what the same call, or copy, has written.
    "dask/new_target.py": "removes an array that it couldn't write",
    "hdmf/backend/conversion.py": "begins a copy beside the old anew",
    "hdmf/opening.py": "removes a store that it couldn't write",
    "hdmf/replacement.py": "deletes its own successor",
    "hdmf/storage/guard.py": "removes what was written where a store is no longer",
    "core/trees/new_location.py": "removes groups that were made for a node that couldn't be written",
    "copying/copy.py": "deletes its own unfinished copy",
    "copying/copy_arrays.py": "deletes intermediate arrays",
    "copying/tree_copy.py": "deletes its own unfinished copy",
    "copying/planned_copy.py": "deletes its own unfinished copy",
    "copying/copy_place.py": "begins a copy beside the old anew",
    "copying/fence.py": "deletes what a task of a copy that has ended has written",
    "copying/new_array.py": "removes an array that it couldn't write",
    "xarray/create.py": "removes an array that it couldn't write",
    "xarray/dataset_write.py": "removes chunks written after others have deleted their array",
}


_OF_ADAPTERS = ("delete_range", "delete_where")


def places() -> Iterator[str]:
    """Yield the places of calls that delete, and requests to, in modules that have no reason to."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(("core/kvstore/", "testing/")):  # stores, and their contracts
            continue
        inside: dict[ast.AST, str] = {}
        tree = ast.parse(path.read_text())
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                inside |= dict.fromkeys(ast.walk(function), function.name)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or inside.get(node) in (
                "delete_range",
                "delete_where",
            ):  # an adapter's
                continue
            if _clears(node) or (_deletes(node) and name not in ALLOWED):
                yield f"{name}:{node.lineno}: {ast.unparse(node)}"


def _deletes(call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Name):
        return called.id in (*CALLS, "DeletePrefix", "rmtree")
    return isinstance(called, ast.Attribute) and called.attr in (*CALLS, "rmtree")


def _clears(call: ast.Call) -> bool:
    """Return True for a call of a function that is there to make room."""
    return isinstance(call.func, ast.Name) and call.func.id in ("clear", "clear_tree")


def test_nothing_deletes_first() -> None:
    assert list(places()) == []


def test_reasons_are_of_modules_that_delete() -> None:
    """A module that deletes nothing any more needs no reason."""
    for name in ALLOWED:
        calls = ast.walk(ast.parse((SOURCE / name).read_text()))
        assert any(isinstance(node, ast.Call) and _deletes(node) for node in calls), name


if __name__ == "__main__":
    found = list(places())
    print(*found, f"{len(found)} places", sep="\n")
    sys.exit(bool(found))
