"""Public classes and functions name the module that users import them from."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

__all__ = ["name_members"]


def name_members(module: dict[str, Any], names: Iterable[str]) -> None:
    """Give the classes and functions called `names`, and classes in those classes, the name of `module`."""
    # A class with two names has the first of them.
    for name in names:
        value = module[name]
        if isinstance(value, FunctionType):
            value.__module__ = module["__name__"]
        elif isinstance(value, type):
            _name_class(value, module["__name__"], name)


def _name_class(value: type, module: str, path: str) -> None:
    if not value.__module__.startswith(module + "."):
        return
    value.__module__, value.__qualname__ = module, path
    for name, inner in vars(value).items():
        if isinstance(inner, type) and not name.startswith("_"):
            _name_class(inner, module, f"{path}.{name}")
