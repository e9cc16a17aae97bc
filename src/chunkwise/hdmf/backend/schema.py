"""The schema of a file: types that it declares for datasets, and its specifications cached in the file."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.spec import NamespaceCatalog
from hdmf.spec.write import SpecWriter
from hdmf.utils import get_docval

from chunkwise.errors import ChunkwiseError, DataCorruptionError, LossWarning, UnsupportedError
from chunkwise.extension.inside import parse_json
from chunkwise.hdmf.model.attributes import SPECLOC, data_type_of
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import TEXT_WORDS, Element, bytes_, compound, text
from chunkwise.hdmf.model.reference import join_path
from chunkwise.hdmf.model.values import as_values
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import HdmfStore

try:
    from hdmf.spec.namespace import SpecReader
except ImportError:  # pragma: no cover - where other releases have it
    from hdmf.spec.spec import SpecReader  # type: ignore[no-redef, attr-defined, unused-ignore]

__all__ = [
    "DATE_WORDS",
    "as_declared",
    "cached_documents",
    "cached_versions",
    "declared_dtype",
    "load_cached_namespaces",
    "spec_of",
    "unknown_type",
    "write_specifications",
]

# -- declared types -----------------------------------------------------------------------------------

DATE_WORDS = ("isodatetime", "datetime")
"""Names of dates in schemas; they are stored as text or bytes."""


def declared_dtype(catalog: NamespaceCatalog, name: str, attributes: Mapping[str, Any], above: Any) -> Any:
    """Return the dtype of a dataset in the specification of its type or of the group that it is in.

    `above` is the group: something with name, attributes and parent, as a builder has them, or None.
    """
    spec = spec_of(catalog, attributes)
    found = getattr(spec, "dtype", None)
    if found is None and above is not None:
        group = _of_group(catalog, above)
        spec = None if group is None else group.get_dataset(name)
        found = getattr(spec, "dtype", None)
    return found


def _of_group(catalog: NamespaceCatalog, group: Any) -> Any:
    spec = spec_of(catalog, group.attributes)
    if spec is None and group.parent is not None:
        above = _of_group(catalog, group.parent)
        return None if above is None else above.get_group(group.name)
    return spec


def spec_of(catalog: NamespaceCatalog, attributes: Mapping[str, Any]) -> Any:
    """Return the specification of the type that attributes name; None if there is none, or it isn't known."""
    data_type, namespace = data_type_of(attributes), attributes.get("namespace")
    if data_type is None or namespace is None:
        return None
    try:
        return catalog.get_spec(namespace, data_type)
    except (KeyError, ValueError):  # a schema that is not loaded
        return None


def as_declared(element: Element, declared: Any) -> Element:
    """Return a type in which text and bytes are what a schema says that they are."""
    if element.kind == "compound":
        if not isinstance(declared, list | tuple):
            return element
        words = {d["name"]: d["dtype"] for d in declared if isinstance(d, Mapping)}
        return compound([(m.name, as_declared(m.element, words.get(m.name))) for m in element.members])
    if element.kind not in ("text", "bytes") or not isinstance(declared, str):
        return element
    if declared in TEXT_WORDS:
        return text
    return bytes_ if declared in ("ascii", "bytes") else element


# -- cached specifications ----------------------------------------------------------------------------

NAMESPACE = "namespace"
"""Name of the document that lists the sources of a namespace."""

GROUP = "specifications"


def cached_versions(store: HdmfStore) -> dict[str, str]:
    """Return the newest cached version of each namespace in a store."""
    path = store.specifications()
    if path is None:
        return {}
    out = {}
    for name in store.names(path):
        versions = [v for v in store.names(join_path(path, name)) if _has_namespace(store, path, name, v)]
        if versions:
            out[name] = max(versions, key=_version_key)
    return out


def unknown_type(store: HdmfStore, catalog: NamespaceCatalog, error: ValueError) -> UnsupportedError | None:
    """Return the error for a type that hdmf lacks because the schemas differ; None otherwise."""
    found = re.match(r"No specification for '(.+)' in namespace '(.+)'", str(error))
    if found is None or found[2] not in catalog.namespaces:
        return None
    stored, known = cached_versions(store).get(found[2]), catalog.get_namespace(found[2]).version
    if stored is None and found[2] == "core":
        stored = store.attributes("/").get("nwb_version")
    return UnsupportedError(
        f'{store.source} has the type "{found[1]}", which "{found[2]}" {known} does not have: the file is of '
        f"{stored or 'an unknown version'}, which needs a newer release of the package that defines it"
    )


def _has_namespace(store: HdmfStore, path: str, name: str, version: str) -> bool:
    return join_path(join_path(join_path(path, name), version), NAMESPACE) in store.tree.nodes


def _version_key(version: str) -> tuple[Any, ...]:
    if version in ("unversioned", "None"):
        return (0, (), False, version)
    head = re.match(r"v?([0-9]+(?:\.[0-9]+)*)(.*)", version)
    if head is None:
        return (1, (), False, version)
    # "2.0.0" is newer than "2.0.0-alpha"
    return (2, tuple(map(int, head[1].split("."))), head[2] == "", head[2])


class StoreSpecReader(SpecReader):  # type: ignore[misc, unused-ignore]
    """Reads the cached specifications of one namespace and version."""

    def __init__(self, store: HdmfStore, path: str) -> None:
        super().__init__(source=f"{store.source}:{path}")
        self._store = store
        self._path = path
        self._cached: dict[str, Any] = {}

    def _read(self, name: str) -> dict[str, Any]:
        found = self._cached.get(name)
        if found is None:
            path = join_path(self._path, name)
            value = self._store.dataset(path).read().reshape(-1)[0]
            if isinstance(value, bytes):
                value = value.decode()
            if not isinstance(value, str):
                raise DataCorruptionError(f'cached specification "{path}" is no text')
            try:
                found = parse_json(value)
            except ValueError as e:
                raise DataCorruptionError(f'cached specification "{path}": {e}') from None
            if not isinstance(found, dict):
                raise DataCorruptionError(f'cached specification "{path}" is no object')
            self._cached[name] = found
        return found

    def read_spec(self, spec_path: str) -> dict[str, Any]:
        """Return the types of one source."""
        return self._read(spec_path)

    def read_namespace(self, ns_path: str) -> list[dict[str, Any]]:
        """Return the namespaces that the document lists."""
        found = self._read(ns_path).get("namespaces")
        if not isinstance(found, list):
            raise DataCorruptionError(f'cached specification "{self._path}/{ns_path}" has no namespaces')
        return found


def load_cached_namespaces(
    store: HdmfStore, catalog: Any, namespaces: Sequence[str] | None = None
) -> dict[str, Any]:
    """Load cached namespaces into a catalog or type map; those that it has already are kept."""
    versions = cached_versions(store)
    if not versions:
        warnings.warn(f"No cached namespaces found in {store.source}", stacklevel=3)
        return {}
    path = store.specifications()
    assert path is not None
    wanted = list(versions) if namespaces is None else [n for n in namespaces if n in versions]
    readers = {n: StoreSpecReader(store, join_path(join_path(path, n), versions[n])) for n in wanted}
    if _TAKES_ALL:
        return dict(catalog.load_namespaces(NAMESPACE, reader=readers))
    loaded: dict[str, Any] = {}
    for name in _included_first(readers):
        loaded.update(catalog.load_namespaces(NAMESPACE, reader=readers[name]))
    return loaded


def _takes_all_readers() -> bool:
    """Return True if hdmf takes and orders the readers of all namespaces, as from release 4."""
    for argument in get_docval(NamespaceCatalog.load_namespaces):
        if argument["name"] == "reader":
            kinds = argument["type"]
            return dict in (kinds if isinstance(kinds, tuple | list) else (kinds,))
    return True


_TAKES_ALL = _takes_all_readers()


def _included_first(readers: dict[str, StoreSpecReader]) -> list[str]:
    """Return the names of namespaces, each after those that it includes."""
    ordered: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in ordered or name in above or name not in readers:
            return
        for namespace in readers[name].read_namespace(NAMESPACE):
            for source in namespace.get("schema", ()):
                if "namespace" in source:
                    add(str(source["namespace"]), (*above, name))
        ordered.append(name)

    for name in readers:
        add(name, ())
    return ordered


class _StoreSpecWriter(SpecWriter):  # type: ignore[misc, unused-ignore]
    def __init__(self, writer: NodeWriter, path: str) -> None:
        self._writer = writer
        self._path = path

    def _write(self, value: Any, name: str) -> None:
        put_specification(self._writer, join_path(self._path, name), json.dumps(value, separators=(",", ":")))

    def write_spec(self, spec: Any, path: str) -> None:
        self._write(spec, path)

    def write_namespace(self, namespace: Any, path: str) -> None:
        self._write({"namespaces": [namespace]}, path)


def put_specification(writer: NodeWriter, path: str, content: str) -> None:
    """Store one document of a cached specification."""
    store = writer.store
    node = store.convention.specification(path)
    if node is None:
        writer.dataset(path, text, as_values(content, text, ()), Settings(), {}, scalar=True)
        return
    writer.put(node)
    array = store.physical(path)
    array.write(..., as_values([content], text).reshape(array.shape)).result()


def write_specifications(writer: NodeWriter, catalog: NamespaceCatalog) -> None:
    """Cache all namespaces of a catalog in a store; versions that are there already are kept."""
    store = writer.store
    if not list(catalog.namespaces):
        return
    path = store.specloc or f"/{GROUP}"
    root = store.tree.nodes["/"]
    if SPECLOC not in root.attributes:
        writer.set_attributes("/", {**root.attributes, SPECLOC: path[1:]})
    _require_group(writer, path)
    for name in catalog.namespaces:
        version = catalog.get_namespace(name).version or "unversioned"
        at = join_path(join_path(path, name), version)
        if at in store.tree.nodes:
            continue
        builder = NamespaceToBuilderHelper.convert_namespace(catalog, name)
        _require_group(writer, join_path(path, name))
        _require_group(writer, at)
        builder.export(NAMESPACE, writer=_StoreSpecWriter(writer, at))


def _require_group(writer: NodeWriter, path: str) -> None:
    if path not in writer.store.tree.nodes:
        writer.group(path, {}, {})


def cached_documents(store: HdmfStore) -> Iterator[tuple[str, str | None]]:
    """Yield the path of each group of cached specifications with None, and of each document with its text."""
    path = store.specifications()
    for at in () if path is None else store.walk(path, specifications=True):
        if not store.is_dataset(at):
            yield at, None
            continue
        try:
            content = store.dataset(at).read().reshape(-1)[0]
        except ChunkwiseError as e:
            message = f"cached specification {at} can't be read and is left out: {e}"
            warnings.warn(message, LossWarning, stacklevel=3)
            continue
        yield at, content.decode() if isinstance(content, bytes) else str(content)


def copy_specifications(source: HdmfStore, writer: NodeWriter) -> None:
    """Copy all cached specifications of another store as they are."""
    path, store = source.specifications(), writer.store
    if path is not None:
        writer.set_attributes("/", {**store.tree.nodes["/"].attributes, SPECLOC: path[1:]})
    for at, document in cached_documents(source):
        if at not in store.tree.nodes:
            if document is None:
                writer.group(at, {}, {})
            else:
                put_specification(writer, at, document)
