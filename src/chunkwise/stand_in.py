"""Modules that stand in for another library's, for programs that import it by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from chunkwise.errors import FailedPreconditionError

__all__ = ["install_as_tensorstore", "install_as_z5py", "stand_in_for"]


class _StandIn(ModuleType):
    """A module with names of chunkwise."""


def stand_in_for(library: str, function: str, members: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
    """Let ``import library`` give other members, in this process; do nothing the second time.

    Parameters
    ----------
    library : str
        Name of the package.
    function : str
        Name that the user has called, for the error.
    members : callable
        Returns the members of each module, by their names; the package comes first.

    Raises
    ------
    FailedPreconditionError
        If the library was imported already: there would be classes of both.
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
    """Let ``import tensorstore`` give `chunkwise`, in this process.

    Programs that are written for TensorStore run on chunkwise unchanged, as far as they use what is listed
    in `docs/tensorstore.md`.  A TensorStore that is installed is not seen any more; its files are left
    alone.  Does nothing the second time.

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


def install_as_z5py() -> None:
    """Let ``import z5py`` give `chunkwise.z5py`, in this process.

    The modules ``z5py.file``, ``group``, ``dataset`` and ``attribute_manager`` are found too.  A z5py that is
    installed is not seen any more; its files are left alone.  Does nothing the second time.

    Raises
    ------
    FailedPreconditionError
        If z5py was imported already: there would be classes of both.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.install_as_z5py()  # doctest: +SKIP
    >>> import z5py  # doctest: +SKIP
    >>> z5py.File.__module__  # doctest: +SKIP
    'chunkwise.z5py'
    """

    def members() -> dict[str, dict[str, Any]]:
        ours = import_module("chunkwise.z5py")
        modules = ("file", "group", "dataset", "attribute_manager")
        own = {name: getattr(ours, name) for name in ours.__all__ if name not in modules}
        found: dict[str, dict[str, Any]] = {"z5py": {**own, "__all__": list(own)}}
        for name in modules:
            module = getattr(ours, name)
            found[f"z5py.{name}"] = {member: getattr(module, member) for member in module.__all__}
        return found

    stand_in_for("z5py", "install_as_z5py", members)
