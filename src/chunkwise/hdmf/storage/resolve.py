"""Targets of links and references, in the store that holds them or another."""

# A source is relative to the store in which it is *written*, not to the one that was opened first.  Some
# releases wrote other things; the order in which places are tried is at `StoreSet.resolve`.

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from chunkwise.errors import ChunkwiseError, FailedPreconditionError, NotFoundError
from chunkwise.extension.inside import is_url
from chunkwise.hdmf.model.place import is_absolute, join_source
from chunkwise.hdmf.model.reference import Reference, canonical_path, join_path, split_path
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["BrokenLinkError", "BrokenLinkWarning", "ExternalLinks", "StoreSet", "Target"]

ExternalLinks: TypeAlias = Literal["siblings", "any", "none"]
"""Other stores that may be opened: those near the one that holds the link, all, or none."""

N_LEVELS = 3
"""Number of directories above a store in which its neighbours may lie."""

MAX_FOLLOWED = 16
"""Number of links that are followed one after the other."""


class BrokenLinkError(FailedPreconditionError):
    """A link or reference whose target does not exist, or is in a store that must not be opened."""


class BrokenLinkWarning(UserWarning):
    """A link or reference was left out."""


class Target(NamedTuple):
    """The target of a reference."""

    store: HdmfStore
    path: str


class StoreSet:
    """The stores that are open for one I/O object, each once."""

    def __init__(
        self,
        main: HdmfStore,
        open_other: Callable[[str], HdmfStore],
        external: ExternalLinks = "siblings",
        roots: Sequence[str] = (),
    ) -> None:
        self.main = main
        self.external = external
        self.roots = tuple(r if is_url(r) else os.path.realpath(r) for r in roots)
        self._open_other = open_other
        self._stores: dict[str, HdmfStore | None] = {main.source: main}

    @property
    def stores(self) -> list[HdmfStore]:
        """All that were opened."""
        return [store for store in self._stores.values() if store is not None]

    def resolve(self, reference: Reference, holder: HdmfStore) -> Target:
        """Return the target of a reference written in the store `holder`."""
        rest: list[str] = []
        for _ in range(MAX_FOLLOWED):
            target = self._one(reference, holder)
            names = [*split_path(target.path), *rest]
            at = "/"
            while names and join_path(at, names[0]) in target.store.tree.nodes:
                at = join_path(at, names.pop(0))
            if not names:
                return Target(target.store, at)
            # The first name that is no object is a link, or the target doesn't exist.
            links = {} if target.store.is_dataset(at) else target.store.links(at)
            if names[0] not in links:
                raise BrokenLinkError(
                    f"there is no object {join_path(at, names[0])} in {target.store.source}"
                )
            reference, holder, rest = links[names[0]], target.store, names[1:]
        raise BrokenLinkError(
            f"link leads to a link {MAX_FOLLOWED} times: {reference.path} in {reference.source}"
        )

    def _one(self, reference: Reference, holder: HdmfStore) -> Target:
        try:
            path = canonical_path(reference.path)
        except ChunkwiseError as e:
            raise BrokenLinkError(e.message) from None
        if reference.internal:
            if holder.contains(path):
                return Target(holder, path)
            raise BrokenLinkError(f"there is no object {path} in {holder.source}")
        if not reference.link and _is_of(reference, holder, path):
            return Target(holder, path)
        reasons = []
        for from_parent in (False, True):
            name = join_source(holder.source, reference.source, from_parent=from_parent)
            refused = self._refused(reference.source, name, holder)
            if refused:
                reasons.append(refused)
                continue
            assert name is not None
            store, reason = self._opened(name)
            if store is None:
                reasons.append(reason)
            elif not store.contains(path):
                reasons.append(f"there is no object {path} in {name}")
            elif other := _other_identity(reference, store, path):
                reasons.append(other)
            else:
                return Target(store, path)
            if is_absolute(reference.source):
                break
        if _is_of(reference, holder, path):
            return Target(holder, path)
        if reference.object_id is None and reference.source in holder.own_names and holder.contains(path):
            return Target(holder, path)
        raise BrokenLinkError(reasons[0])

    def _opened(self, name: str) -> tuple[HdmfStore | None, str]:
        """Return the store of a name, or why there is none."""
        try:
            return self.get(name), f"there is no store at {name}"
        except ChunkwiseError as e:
            return None, f"{name} can't be opened: {e.message}"

    def _refused(self, source: str, name: str | None, holder: HdmfStore) -> str | None:
        """Return why a store must not be opened; None if it may."""
        if name is None:
            return f'source "{source}" leads out of {holder.source}'
        if self.external == "any" or name == holder.source:
            return None
        if any(_is_below(name, root) for root in self.roots):
            return None
        if self.external == "none":
            return f'external source "{source}" is refused: external links are not allowed'
        if is_absolute(source):
            return f'absolute source "{source}" is refused unless external links are allowed to be "any"'
        near, allowed = holder.source, False
        for _ in range(N_LEVELS):
            near = join_source(near, "..") or near
            allowed = allowed or _is_below(name, near)
        if not allowed:
            return f'source "{source}" leads too far away from {holder.source} and is refused'
        return None

    def get(self, name: str) -> HdmfStore | None:
        """Return the store of that name, opened once; None if there is none."""
        key = name if is_url(name) else os.path.realpath(name)
        if key not in self._stores:
            try:
                self._stores[key] = self._open_other(key)
            except NotFoundError:
                self._stores[key] = None
        return self._stores[key]


def _is_of(reference: Reference, store: HdmfStore, path: str) -> bool:
    """Return True if the object of a store at a path is known to be the target."""
    node = store.tree.nodes.get(path)
    if node is None or reference.source_object_id is None or reference.source_object_id != store.object_id:
        return False
    own = node.attributes.get("object_id")
    return reference.object_id is None or own is None or own == reference.object_id


def _other_identity(reference: Reference, store: HdmfStore, path: str) -> str | None:
    """Return why the object of a store at a path is not the target; None if it may be."""
    node = store.tree.nodes.get(path)
    own = None if node is None else node.attributes.get("object_id")
    for what, found, expected in (
        (path, own, reference.object_id),
        ("root", store.object_id, reference.source_object_id),
    ):
        if found is not None and expected is not None:
            if found == expected:
                return None
            return f"the {what} of {store.source} is another object: its object_id is {found}, not {expected}"
    return None


def _is_below(name: str, root: str) -> bool:
    if is_url(name) != is_url(root):
        return False
    if is_url(name):
        return name == root or name.startswith(root.rstrip("/") + "/")
    name = os.path.realpath(name)
    # The root of the file system is no neighbourhood.
    return root not in (os.sep, "") and (name == root or name.startswith(root.rstrip(os.sep) + os.sep))
