"""Paths of the objects of builders: in their own file, or where they are copied to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder

from chunkwise.hdmf.model.attributes import object_id_of
from chunkwise.hdmf.model.place import canonical_source
from chunkwise.hdmf.model.reference import canonical_path, join_path

__all__ = ["ROOT", "CopiedObjects", "identity_of", "path_of", "target_of", "top_of"]

ROOT = "root"
"""Name of the builder of a root."""


def path_of(builder: Any) -> str:
    """Return the path of a builder in its store."""
    if builder.parent is None and builder.name == ROOT:
        return "/"
    if builder.location is not None:
        return join_path(canonical_path(builder.location), builder.name)
    names = []
    at = builder
    while at is not None and not (at.parent is None and at.name == ROOT):
        names.append(at.name)
        at = at.parent
    return "/" + "/".join(reversed(names))


def top_of(builder: Any) -> Any:
    """Return the root of a builder's tree."""
    while builder.parent is not None:
        builder = builder.parent
    return builder


def target_of(link: Any) -> Any:
    """Return the builder of the object that a link leads to."""
    while isinstance(link, LinkBuilder):
        link = link.builder
    return link


def identity_of(builder: Any) -> str | None:
    """Return the identity of a builder's object, or None."""
    attributes = getattr(builder, "attributes", None)
    return None if attributes is None else object_id_of(attributes)


class CopiedObjects:
    """Objects outside of a tree of builders, each copied to the path of the first link to it."""

    def __init__(self) -> None:
        self._builders: dict[int, tuple[Any, str]] = {}  # the builder is kept, so that its id stays its own
        self._paths: dict[tuple[str, str], str] = {}
        self._identities: dict[str, str] = {}  # of all that is written

    def plan(self, root: GroupBuilder, is_copied: Callable[[Any], bool]) -> None:
        """Find the links below a root whose targets are copied."""
        for builder, relative in _below(root):
            self._note(builder, relative or "/")
        for kind in (GroupBuilder, DatasetBuilder):  # a dataset may be in one of the groups
            self._plan(root, kind, is_copied)

    def _plan(self, root: GroupBuilder, kind: type, is_copied: Callable[[Any], bool]) -> None:
        pending: list[tuple[Any, str]] = [(root, "/")]
        while pending:
            group, path = pending.pop()
            for name, link in group.links.items():
                target = target_of(link)
                if self.path_of(target) == join_path(path, name) and isinstance(target, GroupBuilder):
                    pending.append((target, join_path(path, name)))  # found in the pass before
                if not isinstance(target, kind) or id(target) in self._builders or not is_copied(target):
                    continue
                place = join_path(path, name)
                for builder, relative in _below(target):
                    self._add(builder, place + relative)
                if isinstance(target, GroupBuilder):
                    pending.append((target, place))
            pending += [(child, join_path(path, child.name)) for child in group.groups.values()]

    def _note(self, builder: Any, path: str) -> None:
        identity = identity_of(builder)
        if identity is not None:
            self._identities.setdefault(identity, path)

    def _add(self, builder: Any, path: str) -> None:
        self._note(builder, path)
        self._builders.setdefault(id(builder), (builder, path))
        if builder.source is not None:
            self._paths.setdefault((canonical_source(builder.source), path_of(builder)), path)

    def path_of(self, builder: Any) -> str | None:
        """Return the path of the copy of an object; None if it is not copied."""
        found = self._builders.get(id(builder))
        return None if found is None else found[1]

    def path_like(self, builder: Any) -> str | None:
        """Return the path at which an object of another file with this builder is written."""
        relative = ""
        while builder is not None and path_of(builder) != "/":
            found = self._identities.get(identity_of(builder) or "")
            if found is not None:
                return found.rstrip("/") + relative
            builder, relative = builder.parent, f"/{builder.name}{relative}"
        return None

    def path_of_stored(self, path: str, identity: Callable[[str], str | None]) -> str | None:
        """Return the path at which a stored object is written; `identity` gives the identity at a path."""
        relative = ""
        while path:
            found = self._identities.get(identity(path) or "")
            if found is not None:
                return found.rstrip("/") + relative
            path, _, name = path.rpartition("/")
            relative = f"/{name}{relative}"
        return None

    def path_at(self, source: str, path: str) -> str | None:
        """Return the path of the copy of what is at a path of another file; None if it is not copied."""
        return self._paths.get((canonical_source(source), path)) if self._paths else None


def _below(builder: Any) -> Iterator[tuple[Any, str]]:
    """Yield a builder and all in it, each with its path from there."""
    pending = [(builder, "")]
    while pending:
        at, path = pending.pop()
        yield at, path
        if isinstance(at, GroupBuilder):
            for child in (*at.groups.values(), *at.datasets.values()):
                pending.append((child, f"{path}/{child.name}"))
