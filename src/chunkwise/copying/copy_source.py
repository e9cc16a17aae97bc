"""Sources of copies: stored arrays, and virtual ones described by specs in files, which are written here."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from chunkwise.copying.array_template import ArrayTemplate, template_of
from chunkwise.copying.new_array import open_array, open_node
from chunkwise.copying.overlap import store_and_path, uses
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.driver.tree_formats import FORMATS
from chunkwise.core.index_space import d, newaxis
from chunkwise.core.kvstore.places.staging import new_owner, staging_name
from chunkwise.core.specs.url import is_url
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.location import Location, LocationLike
from chunkwise.core.trees.node import Node, require_node
from chunkwise.core.trees.tree import Tree
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError, NotFoundError

__all__ = [
    "CopySource",
    "check_apart",
    "check_new_file",
    "how_related",
    "replacing",
    "source_at",
    "source_of",
    "stored_source",
    "tree_source",
    "view_source",
    "with_labels",
    "write_spec_file",
]

# -- sources ------------------------------------------------------------------------------------------


class CopySource(NamedTuple):
    """An array to copy."""

    store: TensorStore  # with origin 0
    template: ArrayTemplate
    location: JSON  # for a journal
    digest: str  # digest of its metadata, for a journal
    node: Node | None  # None for an array that a spec makes of others
    left_out: str = ""  # note on other things in its file

    @property
    def is_stored(self) -> bool:
        """True if it has chunks of its own, so that missing ones can be found."""
        return self.node is not None

    def part(self, index: tuple[int | slice, ...]) -> CopySource:
        """Return the region that one index or slice for each dimension selects; its bounds begin at 0."""
        store = self.store
        # With bounds that may change until then, an index outside of them would only be found by the read.
        view = store[d[:].mark_bounds_implicit[False]][index] if index else store
        view = view.translate_to[(0,) * view.rank] if view.rank else view
        slices = {dim: term for dim, term in enumerate(index) if isinstance(term, slice)}
        template = self.template.subset(
            view.shape, list(slices), [term.step or 1 for term in slices.values()]
        )
        return self._replace(store=view, template=template, digest=_digest([self.digest, repr(index)]))

    def arranged(self, dims: Sequence[int], *, n_new: int = 0) -> CopySource:
        """Return the array with its dimensions in another order, and `n_new` of size 1 behind them."""
        view = self.store.transpose(dims) if dims else self.store
        view = view[(..., *[newaxis] * n_new)]
        return self._replace(
            store=view.translate_to[(0,) * view.rank] if view.rank else view,
            template=self.template.arranged(dims, n_new),
            digest=_digest([self.digest, list(dims), n_new]),
        )

    def marked(self, marks: Mapping[str, JSON]) -> CopySource:
        """Return the array with more attributes, which come before its own."""
        own = self.template.attributes
        return self._replace(template=self.template.replaced({"attributes": {**marks, **own}}))

    def uses(self, location: Location, *, below: bool) -> bool:
        """Return True if anything that is read, archives included, is at `location`, or also `below` it."""
        return uses(self.store._array.spec(), location, below=below)


def with_labels(source: CopySource) -> CopySource:
    """Return a source that says by an attribute that it holds labels, if only what lies above it does."""
    if source.store.dtype.memory_dtype.kind not in "iub":
        return source
    return source.marked(hooks.find("label mark")(source.store))


def source_at(place: LocationLike | TensorStore) -> CopySource:
    """Return the array that `place` names: stored, or given by a spec, pictures, or the driver of a file."""
    return source_of(resolve(place))


def _open_source(store: TensorStore) -> CopySource:
    """Return an open array as the source of a copy: the whole stored array, or any view."""
    node = store._whole_node()
    if node is not None:
        return stored_source(node.location)
    # Its spec may hold all of its elements, or a function: only this call can go on with the copy.
    return _view_source(store, f"open array {os.urandom(16).hex()}")


def source_of(found: ResolvedPlace) -> CopySource:
    """Return the array that stands at a place as the source of a copy."""
    source = with_labels(_source_of(found))
    return source._replace(left_out=found.left_out)


def _source_of(found: ResolvedPlace) -> CopySource:
    if found.array is not None:
        is_held = found.is_view and not (found.named or found.is_spec)
        return _open_source(found.array) if is_held else view_source(found.named, found.array)
    node = found.as_node()
    if node.kind == "array":
        return stored_source(node.location)
    if not found.is_file and not node.undeclared:
        raise InvalidArgumentError(
            f"{node.location.text} is a group, not an array; "
            "chunkwise.copy_tree copies it with all that is in it"
        )
    view = found.as_array()  # the only array or image of a file
    stored = view._find_node().node if view.spec()._driver.driver in FORMATS else None
    return view_source(found.named, view) if stored is None else stored_source(stored.location)


def stored_source(location: Location, node: Node | None = None) -> CopySource:
    """Return the array that is stored at `location`, whose `node` may be known."""
    node = require_node(location) if node is None else node
    store = open_array(location, found=node, read=True)
    template = template_of(store, node, node_attributes(node))
    return CopySource(store, template, location.journal_json(), _digest(dict(node.document)), node)


def tree_source(tree: Tree, names: Sequence[str], node: Node) -> CopySource:
    """Return an array of a tree; at most its attributes are read."""
    store = open_node(tree, names, node)
    known = tree.known_attributes(names)
    template = template_of(store, node, node_attributes(node) if known is None else known)
    return CopySource(store, template, node.location.journal_json(), _digest(dict(node.document)), node)


def view_source(path: str, store: TensorStore) -> CopySource:
    """Return the array that `path` names, which isn't a node; its bounds begin at 0 in the copy."""
    # Without a path, its spec stands for it.
    spec = store.spec().to_json()
    location = path if is_url(path) else os.path.abspath(path) if path else spec
    return _view_source(store, location, spec)


def _view_source(store: TensorStore, location: JSON, spec: JSON = None) -> CopySource:
    store = store.translate_to[(0,) * store.rank] if store.rank else store
    chunks = store.chunk_layout.read_chunk.shape
    template = ArrayTemplate(
        shape=store.shape,
        dtype=store.dtype,
        chunks=None if not chunks or None in chunks else tuple(n or 1 for n in chunks),
        fill_value=store.fill_value,
        names=tuple(label or None for label in store.domain.labels),
        units=tuple(store.dimension_units),
    )
    return CopySource(store, template, location, _digest(spec or location), None)


def check_apart(source: Location, destination: Location) -> None:
    """Raise InvalidArgumentError if one is, or contains, the other."""
    if how := how_related(source, destination):
        raise InvalidArgumentError(f"{source.text} can't be copied to {destination.text}, which {how}")


def how_related(
    source: Location, destination: Location
) -> Literal["", "is the same", "is inside it", "holds it"]:
    """Return what a destination is to a source, by whatever names and links; empty if they are apart."""
    store, here = store_and_path(source.store, source.path)
    base = destination.store_spec.base
    places = [store_and_path(destination.store, destination.path)]
    while base is not None:  # the archives that it is in are files, which may be in the source
        other, path = store_and_path(*base.open_driver())
        places.append((other, path and path.rstrip("/") + "/"))
        base = base.base
    for other, there in places:
        if store == other and (here.startswith(there) or there.startswith(here)):
            if here != there:
                return "is inside it" if there.startswith(here) else "holds it"
            return "is the same"
    return ""


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


# -- spec files ---------------------------------------------------------------------------------------


def write_spec_file(path: str | os.PathLike[str], spec: dict[str, JSON], *, overwrite: bool) -> None:
    """Write a spec; a reader at the same time sees the old one or the new one."""
    with replacing(path, overwrite=overwrite) as part:
        part.write_text(json.dumps(spec, indent=1) + "\n", encoding="utf-8")


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Yield the path of a file to be written, which takes the name `path` if there is no error."""
    check_new_file(path, overwrite=overwrite)
    part = Path(path).with_name(staging_name(Path(path).name, new_owner()))
    try:
        yield part
        check_new_file(path, overwrite=overwrite)  # there may be one by now
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_new_file(path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Raise if a file can't be made, or if anything of that name, even a link, is there unasked."""
    text, above = os.fspath(path), Path(path).parent
    if not above.is_dir():
        raise NotFoundError(f"{text}: there is no directory {above}")
    if Path(path).is_dir():
        raise FailedPreconditionError(f"{text} is a directory, expected the name of a file")
    if not overwrite and os.path.lexists(path):
        raise AlreadyExistsError(f"{text} exists already; --overwrite replaces it")
