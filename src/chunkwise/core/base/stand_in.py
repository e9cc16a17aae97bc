"""Modules that stand in for another library's, for programs that import it by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from chunkwise.errors import FailedPreconditionError

__all__ = ["install_as_tensorstore", "stand_in_for"]


class _StandIn(ModuleType):
    """A module with names of chunkwise."""


def stand_in_for(library: str, function: str, members: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
    """Make ``import library`` import other members in this process; calling it again does nothing.

    Parameters
    ----------
    library : str
        Name of the package.
    function : str
        Name of the function that the user called, for the error.
    members : callable
        Returns the members of each module, by their names; the package comes first.

    Raises
    ------
    FailedPreconditionError
        If the library was imported already: classes of both would be in use.
    """
    found = sys.modules.get(library)
    if isinstance(found, _StandIn):
        return
    if found is not None:
        raise FailedPreconditionError(
            f"{library} is imported already; {function}() has to be called before that"
        )
    modules: dict[str, _StandIn] = {}
    for name, values in members().items():
        module = modules[name] = _StandIn(name, "Names of chunkwise.")
        module.__spec__ = ModuleSpec(name, None, is_package=name == library)
        module.__dict__.update(values)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    modules[library].__path__ = []
    sys.modules.update(modules)


def install_as_tensorstore() -> None:
    """Make ``import tensorstore`` import `chunkwise` in this process.

    Programs written for TensorStore run on chunkwise unchanged, as long as they use only what
    `docs/tensorstore.md` lists.  An installed TensorStore is hidden; its files are left alone.  Calling this
    again does nothing.

    Raises
    ------
    FailedPreconditionError
        If TensorStore was imported already: its arrays and those of chunkwise don't mix.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.install_as_tensorstore()  # doctest: +SKIP
    >>> import tensorstore  # doctest: +SKIP
    >>> tensorstore.open is chunkwise.open  # doctest: +SKIP
    True
    """
    ours = import_module("chunkwise")
    names = {
        "__all__": ours.__all__,
        "__getattr__": lambda name: getattr(ours, name),
        "__dir__": ours.__dir__,
    }
    stand_in_for(
        "tensorstore",
        "install_as_tensorstore",
        lambda: {"tensorstore": names, "tensorstore.ocdbt": {"dump": ours.ocdbt.dump}},
    )
