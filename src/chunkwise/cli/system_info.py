"""``chunkwise info --system``: versions, packages in use, and the machine."""

from __future__ import annotations

import argparse
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any

from chunkwise.cli.command import rows_as_lines, show
from chunkwise.copying.quantities import format_nbytes
from chunkwise.core.libraries import LIBRARIES, Library
from chunkwise.extension import JSON
from chunkwise.extension.inside import PLATFORM_TRAITS, memory_limit, n_processors
from chunkwise.version import __version__

__all__ = ["show_system"]


def show_system(arguments: argparse.Namespace) -> None:
    """Print the information of ``info --system``."""
    info = _system_info()
    show(arguments, info, *_lines(info))


def _lines(info: dict[str, JSON]) -> Iterator[str]:
    info = {**info, "memory": format_nbytes(info["memory"])}
    yield from rows_as_lines(((k, v) for k, v in info.items() if not isinstance(v, dict)), 16)
    for part in ("libraries", "files", "packages"):
        yield f"\n{part}"
        for label, value in info[part].items():
            yield f"  {label:<14} {value or 'not installed'}"
    yield "\nextras"
    for extra, packages in info["extras"].items():
        found = ", ".join(f"{name} {version or 'not installed'}" for name, version in packages.items())
        yield f"  {extra:<14} {found}"


def _system_info() -> dict[str, JSON]:
    """Return the information as JSON; a package that is not installed has no version."""
    packages, extras = _packages()
    return {
        "chunkwise": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "processors": n_processors(),
        "memory": memory_limit(),
        "libraries": {library.work: _used(library) for library in LIBRARIES},
        "files": dict(PLATFORM_TRAITS),
        "packages": packages,
        "extras": extras,
    }


def _used(library: Library[Any]) -> str | None:
    try:
        library()
    except ImportError:
        return None
    return str(library.used)


def _packages() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """Return the versions of the required packages, and those of each extra."""
    required: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    try:
        requirements = requires("chunkwise") or []
    except PackageNotFoundError:  # a source tree that isn't installed
        requirements = []
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if extra is None and "sys_platform" not in requirement:
            required[name] = _version(name)
        elif extra is not None and extra[1] != "all":  # that one has those of the others
            extras.setdefault(extra[1], {})[name] = _version(name)
    return required, extras


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
