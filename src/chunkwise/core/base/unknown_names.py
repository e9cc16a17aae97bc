"""Unknown attributes and arguments: the error says what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, wraps
from types import FunctionType
from typing import Any, NoReturn, ParamSpec, TypeVar

from chunkwise.core.base.foreign_names import FOREIGN_NAMES, Instead
from chunkwise.errors import hint

__all__ = [
    "checked_class",
    "checked_function",
    "checks_arguments",
    "checks_methods",
    "explains_foreign_names",
    "explains_operators",
    "options_of",
]

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
def checked_function(function: FunctionType) -> Any:
    """Return a public function that refuses unknown arguments, saying what to write instead."""
    name = function.__name__
    return _checked(function, name, _SAME_AS.get(name, name))


def checked_class(cls: type) -> None:
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
