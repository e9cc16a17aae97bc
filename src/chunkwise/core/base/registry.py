"""A registry of names for each extension point; names may differ between formats.

A built-in entry is a string ``"package.module:name"`` in `chunkwise.core.base.catalogue`, imported on first
use.  Third parties call `Registry.register` or publish an entry point in the registry's group; entry points
are looked up only for names that are not known otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from chunkwise.core.base.extras import check_shortage
from chunkwise.errors import UnknownExtensionError, hint

__all__ = ["Entry", "Registry"]


class Entry:
    """A built-in extension: where its object is, and its names in each format.

    Parameters
    ----------
    target : str
        ``"package.module:name"``.
    **names : tuple of str
        For each format (``zarr3``, ``zarr2``, ``n5``, ...) the names that mean this extension there.
        The first is used in writing.
    """

    __slots__ = ("names", "target")

    def __init__(self, target: str, **names: tuple[str, ...]) -> None:
        self.target = target
        self.names = names


class Registry:
    """Names of one extension point and the objects they stand for.

    Parameters
    ----------
    kind : str
        Kind of thing that the names stand for, for error messages: ``"codec"``.
    builtin : mapping of str to Entry
        The built-in extensions by their own name.
    group : str
        Entry point group in which other distributions publish theirs.
    """

    def __init__(self, kind: str, builtin: Mapping[str, Entry], group: str) -> None:
        self.kind = kind
        self.group = group
        self.changed = False  # whether anything was registered, which a new process would not know
        self._builtin = builtin
        self._registered: dict[tuple[str, str], Any] = {}
        self._loaded: dict[str, Any] = {}
        self._found: dict[tuple[str, str], Any] = {}  # built-in ones that have been looked up

    def register(self, name: str, item: Any, *, format: str = "") -> None:
        """Make `item` known as `name`, in `format` only or, without one, in all of them."""
        self.changed = True
        self._registered[format, name] = item
        self._found.clear()

    def find(self, name: str, format: str = "") -> Any:
        """Return the entry of `name` in `format`."""
        known = self._found.get((format, name))
        if known is not None:
            return known
        for key in ((format, name), ("", name)):
            if key in self._registered:
                return self._registered[key]
        for own, entry in self._builtin.items():
            if name in entry.names.get(format, ()) or (not format and name == own):
                item = self._found[format, name] = self._load(own, entry.target)
                return item
        from importlib.metadata import entry_points  # not at the top: it imports email, csv and zipfile

        for point in entry_points(group=self.group):
            if point.name in (name, f"{format}:{name}"):
                item = point.load()
                self._registered["" if point.name == name else format, name] = item
                return item
        raise UnknownExtensionError(f'{self.kind} "{name}" is not registered; {self.hint(name, format)}')

    def __getitem__(self, name: str) -> Any:
        return self.find(name)

    def __contains__(self, name: str) -> bool:
        try:
            self.find(name)
        except UnknownExtensionError:
            return False
        return True

    def published(self) -> list[str]:
        """Return the sorted names of other distributions' entry points."""
        from importlib.metadata import entry_points

        return sorted({point.name for point in entry_points(group=self.group)})

    def names(self, format: str = "") -> Iterator[str]:
        """Yield the names known in `format`, the built-in ones first."""
        for own, entry in self._builtin.items():
            if not format:
                yield own
            else:
                yield from entry.names.get(format, ())
        for of, name in self._registered:
            if of in ("", format):
                yield name

    def _load(self, own: str, target: str) -> Any:
        if own not in self._loaded:
            module, _, attribute = target.partition(":")
            try:
                self._loaded[own] = getattr(import_module(module), attribute)
            except ImportError as e:
                check_shortage(e)
                raise
        return self._loaded[own]

    def hint(self, name: str, format: str = "") -> str:
        """Return a similar name, if there is one, and all known names, for an error about `name`."""
        more = f"; others can be added through the {self.group!r} entry points"
        return hint(name, self.names(format), more)
