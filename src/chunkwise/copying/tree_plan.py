"""The plan of a tree copy, and its source: the copy of each node, decided before anything is written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

from chunkwise.copying.array_options import array_options, check_named, for_format
from chunkwise.copying.codec_option import Compressor
from chunkwise.copying.conventions import check_copied_as_tree, level_names, ome_attributes
from chunkwise.copying.copy_job import ArrayJob, CopyJob, planned_job
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import tree_source
from chunkwise.copying.executors import Room
from chunkwise.copying.journal_document import INFORMATIVE, told_options
from chunkwise.copying.losses import fitting_attributes
from chunkwise.copying.small_arrays import SmallArray, location_below, small_array
from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.trees.attributes import left_out_attributes
from chunkwise.core.trees.key_ownership import foreign_files
from chunkwise.core.trees.link import Link, links_of, no_links, target_names, without_links
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node, check_new_names
from chunkwise.core.trees.tree import ResolvedNode, Tree, source_location
from chunkwise.core.trees.walk import UNREADABLE
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError, UnsupportedError, prefix

__all__ = ["CopyRoom", "NodeSource", "TreePlan", "TreeSource", "plan_tree"]

# -- plans --------------------------------------------------------------------------------------------

# The tree is read level by level, so that many documents are requested at the same time; none is read twice.
# Links stay links:
#
# * links to copied nodes lead to the copy;
# * other links become external links to the tree of their target, if the format can express that.
#
# Properties that the target can't hold are left out, or kept in another form, with a note.

_WHOLE_COORDINATE = 1 << 26  # bytes
_N_LOOKED_AT = 1024  # documents that are requested from a server at the same time


class CopyRoom(NamedTuple):
    """Destination and options of the copy of a tree."""

    target: Tree
    names: tuple[str, ...]  # of the top of the copy
    root: Location | None  # where the root of the target will be
    how: CopyOptions
    room: Room
    intermediate: str  # name of the array between two passes over an array

    @property
    def top(self) -> Location:
        """The place of the copy."""
        return self.target.location(self.names)

    @property
    def format(self) -> FormatName:
        """The format of the copy."""
        return self.target.format

    def plan_blocks(self, job: CopyJob) -> None:
        """Plan the blocks of an array; raise InvalidArgumentError if there is too little memory."""
        plan = job.arrays.plan(self.room)
        job.use_plan(plan, summed=self.how.keep_fingerprint, intermediate=self.intermediate)


@dataclass
class TreePlan:
    """Nodes to make, by paths from the top."""

    groups: dict[str, dict[str, JSON]] = field(default_factory=dict)  # with their attributes
    small: list[SmallArray] = field(default_factory=list)
    large: dict[str, ArrayJob] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    notes: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    digest: str = ""  # of all this and the metadata that it was made of

    @property
    def nbytes(self) -> int:
        """Size of all elements of the arrays, in bytes."""
        return sum(array.nbytes for array in self.small) + sum(job.nbytes for job in self.large.values())

    @property
    def n_groups(self) -> int:
        """Number of groups, with those of N5 that are only directories."""
        arrays = (*self.large, *(array.path for array in self.small))
        above = (path.rpartition("/")[0] for path in arrays if path)
        return len({at for path in (*self.groups, *above) for at in _with_above(path)})

    def to_json(self) -> dict[str, JSON]:
        """Return the amount of work, and the plans of the larger arrays."""
        return {
            "groups": self.n_groups,
            "arrays": len(self.small) + len(self.large),
            "links": len(self.links),
            "bytes": self.nbytes,
            "larger_arrays": {path: job.plan.to_json() for path, job in self.large.items()},
            "notes": [{"path": path, "note": note} for path, note in self.notes],
            "left_out": [{"path": path, "note": note} for path, note in self.left_out],
        }

    def top_names(self) -> list[str]:
        """Return the names right below the top."""
        paths = [*self.groups, *self.large, *(array.path for array in self.small)]
        return sorted({path.partition("/")[0] for path in paths if path})


def plan_tree(source: ResolvedNode, fields: Mapping[str, JSON], room: CopyRoom, lost: str = "") -> TreePlan:
    """Return the plan of the copy of a node and everything below it.

    `fields` replace those of all arrays.  Links say how other trees lie from the root of the target.
    `lost` is a note on what the node is, and the copy is not.
    """
    made = _Planning(source, for_format(fields, room.format), room, lost).plan()
    if made.left_out and not (made.small or made.large):
        path, why = made.left_out[0]
        raise InvalidArgumentError(
            f"{room.format} can hold none of the {len(made.left_out)} arrays of "
            f"{source.node.location.text}: {path or 'the array'}: {why}"
        )
    return made


class _SourceNode(NamedTuple):
    """A node, with its documents as read."""

    names: tuple[str, ...]  # in the source
    node: Node
    array: SmallArray | CopyJob | None = None
    notes: tuple[str, ...] = ()
    why_not: str = ""  # there is none
    attributes: Mapping[str, JSON] = {}  # of a group
    children: Sequence[str] = ()
    files: Sequence[str] = ()  # that belong to no node
    links: Mapping[str, Link] = {}


class _Planning:
    def __init__(self, source: ResolvedNode, fields: Mapping[str, JSON], room: CopyRoom, lost: str) -> None:
        self._source, self._fields, self._room = source, fields, room
        self._lost = {"": lost} if lost else {}  # notes on images, by the path from the top
        self._target, self._names, self._top = room.target, room.names, room.top
        self._root = room.root or room.target.root
        self._made = TreePlan()
        self._digest = hashlib.sha256()
        self._dimensions: set[str | None] = set()  # names of those of all arrays
        self._level_names: dict[tuple[str, ...], tuple[str, ...]] = {}  # of axes of images, by array
        self._marks: dict[str, dict[str, JSON]] = {}  # attributes of labels, by path

    def plan(self) -> TreePlan:
        store = self._source.node.location.store
        name = self._names[-1] if self._names else self._root.name
        self._marks = hooks.find("label marks")(self._source.node, name)
        top = self._look(self._source.names, self._source.node)
        self._add(top)
        level = [top]
        while level:
            below = (((*above.names, name), above.node.format) for above in level for name in above.children)
            groups = []
            while some := list(islice(below, _N_LOOKED_AT)):  # there may be very many arrays
                for found in map_requests(store, lambda at: self._find(*at), some):
                    if found is not None:
                        self._add(found)
                        groups += [found] * bool(found.children)
            level = groups
        check_named(self._fields, self._dimensions, "the tree")
        self._made.notes += self._lost.items()
        self._made.digest = self._digest.hexdigest()
        return self._made

    def _find(self, names: tuple[str, ...], inside: FormatName | None) -> _SourceNode | None:
        tree, others = self._source.tree, list[str]()
        try:
            node = tree.find(names, inside, others)
        except UNREADABLE as e:
            if self._room.how.strict:
                raise
            return _SourceNode(names, Node(tree.location(names), inside, "array"), why_not=e.message)
        if node is None and (files := foreign_files(others)):
            return _SourceNode(names, Node(tree.location(names), inside, "group"), files=files)
        return None if node is None else self._look(names, node)

    def _look(self, names: tuple[str, ...], node: Node) -> _SourceNode:
        """Read the metadata of a node."""
        tree, found = self._source.tree, _SourceNode(names, node)
        if node.kind == "group":
            attributes = tree.attributes(names, node).asdict()
            links = links_of(node, attributes)
            files: list[str] = []
            children = tree.children(names, node, files)
            lost = (
                f"attribute {dump(name)} is left out, except for its links" for name in no_links(attributes)
            )
            found = found._replace(notes=tuple(lost))
            attributes = without_links(attributes)
            name = names[-1] if names else node.location.name
            attributes |= self._marks.get(self._below(names), {})
            attributes = ome_attributes(attributes, self._target.format, name)
            self._level_names.update({(*names, *k.split("/")): v for k, v in level_names(attributes).items()})
            return found._replace(attributes=attributes, children=children, links=links, files=files)
        try:
            job = self._job(names, node)
        except ChunkwiseError as e:
            if self._room.how.strict or isinstance(e, OptionError) or not isinstance(e, UNREADABLE):
                raise prefix(e, f"Error copying {node.location.text}") from None
            return found._replace(why_not=e.message)
        is_small = job.arrays.is_small(self._room.room)
        if not is_small:
            try:
                self._room.plan_blocks(job)
            except InvalidArgumentError as e:  # there is too little memory
                raise prefix(e, f"Error copying {node.location.text}") from None
        array = small_array(self._below(names), node, job) if is_small else job
        return found._replace(array=array, notes=(*job.target_spec.notes, *_left_out(node)))

    def _job(self, names: tuple[str, ...], node: Node) -> CopyJob:
        where = location_below(self._top, self._below(names))
        check_new_names(list(names[len(self._source.names) :]), self._target.format)
        source = tree_source(self._source.tree, names, node).marked(self._marks.get(self._below(names), {}))
        axes = self._level_names.get(names, ())
        if not any(source.template.names) and len(axes) == source.store.rank:
            source = source._replace(template=source.template.replaced({"names": axes}))
        self._dimensions.update(source.template.names)
        fields = dict(self._fields)
        if source.store.dtype.memory_dtype.hasobject and not isinstance(fields.get("codec"), Compressor):
            fields.pop("codec", None)  # codecs in JSON may be for numbers only
        by_name = isinstance(fields.get("chunks"), Mapping) or isinstance(fields.get("shards"), Mapping)
        # A coordinate variable is read whole with any part of a dataset; sizes by name are for the others.
        if by_name and source.template.names == names[-1:] and source.store.nbytes <= _WHOLE_COORDINATE:
            fields |= {"chunks": -1, "shards": None}
        return planned_job(
            source,
            where,
            self._target.format,
            fields,
            self._room.how,
        )

    def _below(self, names: Sequence[str]) -> str:
        return "/".join(names[len(self._source.names) :])

    def _add(self, found: _SourceNode) -> None:
        """Plan the copy of a node."""
        made, path = self._made, self._below(found.names)
        if found.node.kind == "group":
            made.notes += self._files_left_out(path, found.files)
            if found.node.undeclared and not found.children:
                return  # a directory that isn't part of the tree
            if path:
                check_new_names(path.split("/")[-1:], self._target.format)
            made.groups[path], notes = fitting_attributes(found.attributes, self._target.format)
            notes += [*found.notes, *_left_out(found.node)]
            made.notes += [(path, note) for note in notes]
            # One note for an image and its parts.
            if not any(above in self._lost for above in _with_above(path)):
                lost = hooks.find("image left out")(
                    found.node, found.attributes, found.children, self._target.format
                )
                self._lost |= {path: lost} if lost else {}
            self._note(path, made.groups[path])
            for name, link in found.links.items():
                self._add_link((*found.names, name), link, is_node=name in found.children)
        elif found.array is None:
            made.left_out.append((path, found.why_not))
        else:
            made.notes += [(path, note) for note in found.notes]
            if isinstance(found.array, SmallArray):
                made.small.append(found.array)
                self._note(path, found.array.json())
            else:
                made.large[path] = job = found.array
                target = job.target_spec
                document = dict(found.node.document)
                self._note(path, document, target.spec, target.attributes, job.plan.to_json())

    def _files_left_out(self, path: str, files: Sequence[str]) -> list[tuple[str, str]]:
        """Return the notes on files of a group that belong to no node."""
        if not files:
            return []
        first = f"{path}/{files[0]}".lstrip("/")
        if self._room.how.strict:
            raise UnsupportedError(f"{first}: it is no array or group, so the copy would lack it")
        others = f", as are {len(files) - 1} others in {path or 'the top'}" if len(files) > 1 else ""
        return [(first, f"is left out{others}: it is no array or group")]

    def _note(self, *values: Any) -> None:
        self._digest.update(json.dumps(values, sort_keys=True).encode())

    def _add_link(self, names: tuple[str, ...], link: Link, *, is_node: bool) -> None:
        made, path, tree = self._made, self._below(names), self._source.tree
        if is_node:
            made.notes.append((path, f"link to {link} is left out: there is a node with that name"))
            return
        try:
            check_new_names([names[-1]], self._target.format)
            target = tuple(target_names(link, names[:-1]))
            source = source_location(tree, link) if link.external else tree.root
        except (InvalidArgumentError, UnsupportedError) as e:
            made.notes.append((path, f"link to {link} is left out: {e.message}"))
            return
        top, root = self._source.names, self._root
        if not link.external and target[: len(top)] == top:
            new = Link("/" + "/".join((*self._names, *target[len(top) :])))
        elif _same_root(source, root):
            new = Link("/" + "/".join(target))
        else:
            new = Link("/" + "/".join(target), _source_text(source, root))
            if not link.external:
                made.notes.append((path, f"link to {link} leads out of the source; it is external now"))
        made.links[path] = new
        self._note(path, list(new))


def _with_above(path: str) -> Iterator[str]:
    """Yield a path and those above it, up to the top."""
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


def _left_out(node: Node) -> list[str]:
    """Return notes on attributes that only the file of another format has."""
    return [f"attribute {dump(name)} is left out: {why}" for name, why in left_out_attributes(node).items()]


def _same_root(a: Location, b: Location) -> bool:
    return bool(a.store.identity == b.store.identity and a.path == b.path)


def _source_text(source: Location, root: Location) -> str:
    """Return how a link in the tree at `root` says where the tree at `source` is."""
    if source.store.identity == root.store.identity:
        return os.path.relpath("/" + source.path, "/" + root.path)
    return source.kvstore().url


# -- sources ------------------------------------------------------------------------------------------


class TreeSource(Protocol):
    """The source of a tree."""

    location: Location  # of the source

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy."""
        ...

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return the description of the copy for its journal; no other copy may resume it."""
        ...

    def finish(self) -> None:
        """Write the files beside the copy, when it is complete except for its journal."""
        ...


class NodeSource:
    """A node with everything below it."""

    def __init__(self, node: ResolvedNode, fields: Mapping[str, Any], lost: str = "") -> None:
        self.location, self._node, self._fields = node.node.location, node, array_options(fields)
        self._lost = lost  # of what the node is, by a copy of what it holds

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy; raise InvalidArgumentError for an HDMF file that it would break."""
        check_copied_as_tree(self._node.node, room.top, room.format)
        return plan_tree(self._node, self._fields, room, self._lost)

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return the description of the copy for its journal."""
        return {"source metadata": plan.digest, INFORMATIVE: told_options(self._fields)}

    def finish(self) -> None:
        """Do nothing."""
