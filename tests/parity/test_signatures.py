"""Every public name of TensorStore's Python module is there, with the parameters that it has there.

TensorStore ships a stub file; only signatures are taken from it.  A parameter must have the same name, be
given by position or keyword in the same way, and have the same default if that is a constant.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorstore

import chunkwise
from chunkwise.core.specs.chunk_grid_constraints import GridKeywords
from chunkwise.core.specs.chunk_layout import ChunkLayoutKeywords
from chunkwise.core.specs.schema_constraints import SchemaKeywords
from chunkwise.core.specs.spec_update import SpecKeywords

STUB = ast.parse((Path(tensorstore.__file__).parent / "__init__.pyi").read_text())

# What has more forms than one signature can show.
_OVERLAY = frozenset(inspect.signature(chunkwise.overlay).parameters)
KEYWORDS: dict[str, frozenset[str]] = {  # collected as ``**keywords``
    "ChunkLayout.Grid.__init__": frozenset(GridKeywords.__annotations__),
    "ChunkLayout.Grid.update": frozenset(GridKeywords.__annotations__),
    "Unit.__init__": frozenset(["multiplier", "base_unit", "unit", "json"]),
    "stack": _OVERLAY,
    "concat": _OVERLAY,
    "ChunkLayout.__init__": frozenset(ChunkLayoutKeywords.__annotations__),
    "ChunkLayout.update": frozenset(ChunkLayoutKeywords.__annotations__),
    "Schema.__init__": frozenset(SchemaKeywords.__annotations__),
    "Schema.update": frozenset(SchemaKeywords.__annotations__),
    "Spec.update": frozenset(SpecKeywords.__annotations__) | frozenset(SchemaKeywords.__annotations__),
}
BY_POSITION_IN_STARS = {  # overloads that are told apart by what ``*arguments`` holds
    "Dim.__init__",
    "OutputIndexMap.__init__",
    "IndexTransform.__init__",
    "IndexDomain.__init__",
    "Unit.__init__",
    "Context.__init__",
}
OTHER_DEFAULTS = {
    ("IndexTransform.__init__", "output"),
    ("OutputIndexMap.__init__", "offset"),  # whether an offset was given decides on the kind of map
    ("OutputIndexMap.__init__", "stride"),
    ("Dim.__init__", "implicit_lower"),  # depends on the form
    ("Dim.__init__", "implicit_upper"),
    ("Dim.__init__", "inclusive_min"),
    ("Dim.__init__", "exclusive_max"),
    ("Dim.__init__", "inclusive_max"),
    ("Unit.__init__", "multiplier"),
    ("KvStore.KeyRange.__init__", "inclusive_min"),  # b"" for ""
    ("KvStore.KeyRange.__init__", "exclusive_max"),
    ("KvStore.ReadResult.__init__", "value"),
    ("KvStore.TimestampedStorageGeneration.__init__", "generation"),
}
NO_MEMBERS = {"OutputIndexMethod"}  # an enum here


def functions(body: list[ast.stmt], path: str = "") -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in NO_MEMBERS:
            yield from functions(node.body, f"{path}{node.name}.")
        if isinstance(node, ast.FunctionDef):
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
            known = not node.name.startswith("__") or node.name in ("__init__", "__new__", "__array__")
            shown = not any(ast.unparse(d).endswith((".setter", "property")) for d in node.decorator_list)
            if known and shown and not node.name.startswith("_unpickle"):
                yield path + node.name, node, bool(path) and not static


SIGNATURES = list(functions(STUB.body))


def find(path: str) -> Any:
    found: Any = chunkwise
    for name in path.split("."):
        found = getattr(found, name)
    return found


def own_parameters(path: str, bound: bool) -> dict[str, inspect.Parameter]:
    function = find(path)
    if path.endswith(".__init__"):
        owner = find(path.rpartition(".")[0])
        if owner.__init__ is object.__init__:
            function = owner.__new__
    if path.endswith(".__new__") and find(path.rpartition(".")[0]).__new__ is object.__new__:
        function = find(path.rpartition(".")[0]).__init__
    parameters = list(inspect.signature(function).parameters.items())
    return dict(parameters[1:] if bound else parameters)


def public_names() -> set[str]:
    for node in STUB.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    raise AssertionError("the stub has no __all__")


def test_every_public_name_is_there() -> None:
    assert {name for name in public_names() if not hasattr(chunkwise, name)} == set()
    assert public_names() - set(chunkwise.__all__) == set()


def classes(module: Any, path: str = "") -> Iterator[str]:
    for name, value in vars(module).items():
        if isinstance(value, type) and not name.startswith("_"):
            yield path + name
            if value.__module__.startswith("tensorstore") and value is not module:
                yield from classes(value, f"{path}{name}.")


CLASSES = sorted({path for path in classes(tensorstore) if path not in NO_MEMBERS | {"Indexable"}})


@pytest.mark.parametrize("path", CLASSES)
def test_every_member_of_a_class_is_there(path: str) -> None:
    theirs: Any = tensorstore
    for name in path.split("."):
        theirs = getattr(theirs, name)
    own = find(path)
    assert [name for name in dir(theirs) if not name.startswith("_") and not hasattr(own, name)] == []
    assert (theirs.__hash__ is None) == (own.__hash__ is None)
    for name, value in vars(theirs).items():
        if isinstance(value, property) and not name.startswith("_"):
            other = getattr(own, name)
            if isinstance(other, property) and path != "OpenMode":
                assert (value.fset is None) == (other.fset is None), name


@pytest.mark.parametrize("index", range(len(SIGNATURES)), ids=lambda i: f"{SIGNATURES[i][0]}-{i}")
def test_every_function_takes_the_same_arguments(index: int) -> None:
    path, stub, bound = SIGNATURES[index]
    own = own_parameters(path, bound)
    keywords = KEYWORDS.get(path, frozenset())
    kinds = {p.kind for p in own.values()}
    assert (inspect.Parameter.VAR_KEYWORD in kinds) == bool(keywords)
    by_position = stub.args.args[1:] if bound else stub.args.args
    without = [None] * (len(by_position) - len(stub.args.defaults))
    defaults = dict(zip([a.arg for a in by_position], [*without, *stub.args.defaults], strict=True))
    for place, argument in enumerate(by_position):
        if argument.arg in own:
            parameter = own[argument.arg]
            if path not in BY_POSITION_IN_STARS:
                assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, argument.arg
                assert list(own)[place] == argument.arg
        else:
            assert path in BY_POSITION_IN_STARS, argument.arg
    for argument in stub.args.kwonlyargs:
        if argument.arg not in keywords:
            parameter = own[argument.arg]
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY or path in BY_POSITION_IN_STARS
    only = zip([a.arg for a in stub.args.kwonlyargs], stub.args.kw_defaults, strict=True)
    for name, default in [*defaults.items(), *only]:
        constant = isinstance(default, ast.Constant) and default.value is not ...
        if constant and name in own and (path, name) not in OTHER_DEFAULTS:
            assert own[name].default == default.value, name
