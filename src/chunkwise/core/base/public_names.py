"""Public names: their modules, unknown attributes and arguments, and warnings to the program that calls."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial, wraps
from importlib import import_module
from types import FrameType, FunctionType
from typing import Any, NoReturn, ParamSpec, TypeVar

from chunkwise.core.base.foreign_names import FOREIGN_NAMES, Instead, instead_of
from chunkwise.errors import hint

__all__ = [
    "Later",
    "checks_arguments",
    "checks_methods",
    "explains_foreign_names",
    "explains_operators",
    "missing_name",
    "name_members",
    "options_of",
    "warn_caller",
]


def warn_caller(message: Warning | str, category: type[Warning] = UserWarning) -> None:
    """Warn the caller of the library."""
    warnings.warn(message, category, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """Return the stack level, for the function that calls this, of the first frame outside this package."""
    level, frame = 1, inspect.currentframe()
    while (frame := frame and frame.f_back) and frame.f_globals.get("__name__", "").startswith("chunkwise."):
        level += 1
    return level


P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift",
)  # fmt: skip
_TAKES_ANY = 0x08  # CO_VARKEYWORDS of `inspect`, which takes long to import
_SAME_AS: dict[str, str] = {
    "concat": "stack",
    "copy_tree": "copy",
    "plan_copy": "copy",
    "write_datatree": "write_dataset",
}
"""Functions without rows of their own."""


class _Missing:
    """An attribute that a class does not have, whose error says what to write instead."""

    # A method `__getattr__` would make looking up every other attribute slower.

    def __init__(self, owner: str, name: str, instead: Instead) -> None:
        self._owner, self._name, self._instead = owner, name, instead

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        text = f"{self._owner!r} object has no attribute {self._name!r}; {self._instead}"
        # With the object, Python adds the nearest of its names, private ones too, which mean something else.
        raise AttributeError(text, name=self._name)


def explains_foreign_names(owner: str) -> Callable[[C], C]:
    """Return a class decorator that makes errors about names in `FOREIGN_NAMES` say what to write instead."""

    def decorate(cls: C) -> C:
        names = FOREIGN_NAMES[owner]
        for name, instead in names.items():
            if not hasattr(cls, name):
                setattr(cls, name, _Missing(owner, name, instead))
        listed: Any = cls.__dir__
        setattr(cls, "__dir__", lambda self: [name for name in listed(self) if name not in names])  # noqa: B010
        return cls

    return decorate


def explains_operators(cls: C) -> C:
    """Give a class the operators of numbers, which are errors of its method `_compute`."""
    for name in ("neg", "pos", "abs", "invert", "round", "floor", "ceil", "trunc"):
        setattr(cls, f"__{name}__", cls._compute)  # type: ignore[attr-defined]  # unseen by checkers of types
    for name in _OPERATORS:
        setattr(cls, f"__{name}__", cls._compute)  # type: ignore[attr-defined]
        setattr(cls, f"__r{name}__", cls._compute)  # type: ignore[attr-defined]
    setattr(cls, "__format__", _format)  # noqa: B010
    return cls


def _format(self: Any, spec: str) -> str:
    return str(self._compute() if spec else self)


def options_of(*sources: Callable[..., Any] | Iterable[str]) -> Callable[[F], F]:
    """Return a decorator that says what ``**options`` are: names, or parameters of a callable."""

    def decorate(function: F) -> F:
        function.__dict__["_options"] = sources
        return function

    return decorate


def checks_arguments(owner: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of methods that refuses unknown arguments, saying what to write instead."""
    return lambda function: _checked(function, function.__name__, owner)


def checks_methods(cls: C) -> C:
    """Make the public methods of a class refuse unknown arguments, too."""
    for name in dir(cls):
        function = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _checked(function, name, f"{cls.__name__.lower()}.{name}"))
    return cls


@cache
def _checked_function(function: FunctionType) -> Any:
    """Return a public function that refuses unknown arguments, saying what to write instead."""
    name = function.__name__
    return _checked(function, name, _SAME_AS.get(name, name))


def _checked_class(cls: type) -> None:
    """Make a public class refuse unknown arguments of its own ``__init__``."""
    made: Any = vars(cls).get("__init__")
    if isinstance(made, FunctionType) and not getattr(cls, "_is_protocol", False):
        setattr(cls, "__init__", _checked(made, cls.__name__, None))  # noqa: B010


def _checked(function: Callable[P, T], name: str, owner: str | None) -> Callable[P, T]:
    if hasattr(function, "_is_checked"):
        return function
    own, takes_any = _parameters(function)
    foreign = FOREIGN_NAMES.get(owner, {}) if owner else {}
    refused = {other: instead for other, instead in foreign.items() if other not in own}
    sources = getattr(function, "_options", ())

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        if not keywords.keys() <= own:
            taken = own.union(*map(_names, sources))
            for keyword in keywords:
                if keyword in refused or not (keyword in taken or (takes_any and not sources)):
                    instead = refused.get(keyword) or (hint(keyword, taken) if taken else "it has none")
                    raise TypeError(f"{name} got an unexpected argument {keyword!r}; {instead}")
        return function(*arguments, **keywords)

    call.__dict__["_is_checked"] = True
    return call


def _names(source: Callable[..., Any] | Iterable[str]) -> frozenset[str]:
    """Return the parameters of a callable, or the names themselves."""
    if not callable(source):
        return frozenset(source)
    function: Any = vars(source)["__init__"] if isinstance(source, type) else source
    return _parameters(function)[0].union(*map(_names, getattr(function, "_options", ())))


def _parameters(function: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Return the parameters that can be given by name, and whether the function takes any others."""
    inner: Any = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = inner.__code__
    names = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    return frozenset(names) - {"self"}, bool(code.co_flags & _TAKES_ANY)


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
            module[name] = _checked_function(value)
            module[name].__module__ = module["__name__"]
        elif isinstance(value, type):
            _name_class(value, module["__name__"], name)


def _name_class(value: type, module: str, path: str) -> None:
    if not value.__module__.startswith(module + "."):
        return
    if not value.__module__.startswith("chunkwise.core."):  # whose classes are made often
        _checked_class(value)
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
