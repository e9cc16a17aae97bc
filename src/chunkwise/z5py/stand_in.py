"""For programs that look for ``z5py`` by name."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from chunkwise import z5py
from chunkwise.extension.inside import stand_in_for
from chunkwise.z5py import attribute_manager, dataset, file, group

__all__ = ["install_as_z5py"]


def install_as_z5py() -> None:
    """Let ``import z5py`` give `chunkwise.z5py`, in this process.

    The modules ``z5py.file``, ``group``, ``dataset`` and ``attribute_manager`` exist too.  An installed z5py
    is hidden; its files are left alone.  Does nothing the second time.

    Raises
    ------
    FailedPreconditionError
        If z5py was imported already, since there would be classes of both.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.install_as_z5py()  # doctest: +SKIP
    >>> import z5py  # doctest: +SKIP
    >>> z5py.File.__module__  # doctest: +SKIP
    'chunkwise.z5py'
    """

    def members() -> dict[str, dict[str, Any]]:
        modules = (file, group, dataset, attribute_manager)
        of_package = [name for name in z5py.__all__ if not isinstance(getattr(z5py, name), ModuleType)]
        package = {name: getattr(z5py, name) for name in of_package}
        found: dict[str, dict[str, Any]] = {"z5py": {**package, "__all__": of_package}}
        for module in modules:
            own = {name: getattr(module, name) for name in module.__all__}
            found[module.__name__.removeprefix("chunkwise.")] = own
        return found

    stand_in_for("z5py", "install_as_z5py", members)
