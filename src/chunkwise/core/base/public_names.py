"""Public classes and functions name the module that users import, and refuse unknown arguments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import FrameType, FunctionType
from typing import Any, NoReturn

from chunkwise.core.base.foreign_names import instead_of
from chunkwise.core.base.unknown_names import checked_class, checked_function

__all__ = ["Later", "missing_name", "name_members"]


class Later:
    """Public names of a module; the defining modules are imported on first use of a name."""

    def __init__(self, module: dict[str, Any], names: Mapping[str, list[str]], packages: list[str]) -> None:
        self._module = module
        self._names = names
        self._home = {name: home for home, defined in names.items() for name in defined}
        self._packages = packages

    def __iter__(self) -> Iterator[str]:
        yield from self._home
        yield from self._packages

    def __contains__(self, name: str) -> bool:
        return name in self._home or name in self._packages

    def load(self, name: str) -> Any:
        """Return the object called `name`; also set the names of all other modules that are loaded by now."""
        own = self._module["__name__"]
        if name in self._packages:
            return import_module(f"{own}.{name}")
        if name not in self._home:
            missing_name(own, name)
        import_module(self._home[name])
        for home, names in self._names.items():
            defined = vars(sys.modules[home]) if home in sys.modules else {}
            if all(name in defined for name in names):  # else another thread is importing the module
                new = [name for name in names if name not in self._module]
                self._module.update({name: defined[name] for name in new})
                name_members(self._module, new)
        return self._module[name]


def missing_name(module: str, name: str) -> NoReturn:
    """Raise the error about a name that a public module does not have; it says what to write instead."""
    instead = instead_of("chunkwise", name)
    if not instead and module != "chunkwise" and name in getattr(sys.modules["chunkwise"], "__all__", ()):
        instead = f"; did you mean chunkwise.{name}?"
    # Python's own message about ``from chunkwise import name`` would leave the advice out.
    error = ImportError if instead and _is_imported() else AttributeError
    raise error(f"module {module!r} has no attribute {name!r}{instead}", name=name)


def _is_imported() -> bool:
    """Return True if the first caller outside of the package is ``from module import name``."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("chunkwise"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_handle_fromlist"


def name_members(module: dict[str, Any], names: Iterable[str]) -> None:
    """Make `module` the ``__module__`` of the classes and functions in `names`, and of inner classes.

    From then on functions, and classes outside the core, refuse unknown arguments with an error that says
    what to write instead.
    """
    module.setdefault("__getattr__", partial(missing_name, module["__name__"]))
    # A class with two names keeps the first.
    for name in names:
        value = module[name]
        if isinstance(value, FunctionType):
            module[name] = checked_function(value)
            module[name].__module__ = module["__name__"]
        elif isinstance(value, type):
            _name_class(value, module["__name__"], name)


def _name_class(value: type, module: str, path: str) -> None:
    if not value.__module__.startswith(module + "."):
        return
    if not value.__module__.startswith("chunkwise.core."):  # whose classes are made often
        checked_class(value)
    value.__module__, value.__qualname__ = module, path
    _show_record(value)
    for name, inner in vars(value).items():
        if isinstance(inner, type) and not name.startswith("_"):
            _name_class(inner, module, f"{path}.{name}")


def _show_record(value: type) -> None:
    """Give a named tuple or dataclass a short repr of its members, unless it defines one."""
    if not hasattr(value, "_fields") and not hasattr(value, "__dataclass_fields__"):
        return
    made_by = getattr(value.__repr__, "__globals__", {}).get("__name__")
    if made_by in ("collections", "dataclasses"):
        value.__repr__ = _record_text  # type: ignore[assignment, method-assign]
    if not hasattr(value, "_repr_html_"):
        value._repr_html_ = _record_html  # type: ignore[attr-defined]


def _record_text(record: object) -> str:
    from chunkwise.core.base.html import record_text

    return record_text(record)


def _record_html(record: object) -> str:
    from chunkwise.core.base.html import record_html

    return record_html(record)
