"""References among builders, to regions too; those of a store as another writes them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import hdmf.build
import numpy as np
from hdmf.build import DatasetBuilder, LinkBuilder, ReferenceBuilder

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf.backend.h5_source import h5_dataset_of, region_of_h5
from chunkwise.hdmf.model.attributes import object_id_of
from chunkwise.hdmf.model.place import canonical_source, relative_source
from chunkwise.hdmf.model.reference import Reference, canonical_path, join_path
from chunkwise.hdmf.model.region import normalize_region, select_region
from chunkwise.hdmf.model.values import shape_of
from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["ROOT", "BuilderReferences", "RegionReference", "identity_of", "path_of"]

ROOT = "root"
"""Name of the builder of a root."""

# hdmf had such builders until release 4; specs with regions work with those only.
_Base: Any = getattr(hdmf.build, "RegionBuilder", None)


class RegionReference(_Base or ReferenceBuilder):  # type: ignore[misc, unused-ignore]
    """A reference to a region of the dataset of a builder.

    Parameters
    ----------
    region : slice, tuple, list, mask, or mapping
        The selected part; see `chunkwise.hdmf.model.region.normalize_region`.
    builder : DatasetBuilder
        The dataset.

    Raises
    ------
    IndexError
        If the region reaches out of the dataset.
    """

    def __init__(self, region: Any, builder: DatasetBuilder) -> None:
        if _Base is None:
            super().__init__(builder)
        else:
            super().__init__(region if isinstance(region, slice | tuple | list) else slice(None), builder)
        given = isinstance(region, Mapping) and "shape" in region
        self["region"] = dict(region) if given else normalize_region(region, shape_of(builder.data))

    @property
    def region(self) -> dict[str, Any]:
        """Canonical form of the region."""
        return self["region"]  # type: ignore[no-any-return]

    @property
    def selection(self) -> Any:
        """NumPy index of the region; for boxes that are no single index, a list of such."""
        region = self.region
        kind = region["type"]
        if kind == "slices":
            return tuple(slice(*s) for s in region["slices"])
        if kind == "points":
            return (
                tuple(list(axis) for axis in zip(*region["points"], strict=True)) if region["points"] else []
            )
        if kind == "blocks":
            boxes = [tuple(slice(f, t + 1) for f, t in zip(*box, strict=True)) for box in region["blocks"]]
            return boxes[0] if len(boxes) == 1 else boxes
        if kind == "hyperslab" and all(b == 1 for b in region["block"]):
            terms = zip(region["start"], region["stride"], region["count"], strict=True)
            return tuple(slice(a, a + s * (n - 1) + 1 if n else a, s) for a, s, n in terms)
        return Ellipsis if kind == "all" else []

    def data(self) -> Any:
        """Return the selected elements, which are read now.

        Raises
        ------
        IndexError
            If the dataset is too small by now.
        """
        data = self.builder.data
        if not hasattr(data, "shape"):
            data = np.asarray(data)
        return select_region(data, self.region)


class BuilderReferences:
    """References to builders, as the store of an I/O object writes them."""

    def __init__(self, io: Any, export_source: str | None) -> None:
        self.io = io
        self.export_source = None if export_source is None else canonical_source(export_source)
        self.root_id: str | None = None
        self._here: dict[str, bool] = {}

    def reference_to(self, value: Any) -> Reference:
        """Return the record of a reference, or of a builder that is referred to."""
        region = None
        target = value
        if isinstance(value, ReferenceBuilder):
            target = value.builder
            given = value.get("region")
            if isinstance(value, RegionReference):
                region = value.region
            elif given is not None:
                region = self._foreign_region(given, target)
        if isinstance(target, LinkBuilder):
            target = target.builder
        root = target
        while root.parent is not None:
            root = root.parent
        here = self.is_here(target)
        root_id = getattr(target, "root_id", None) or identity_of(root)
        return Reference(
            path_of(target),
            "." if here else self.name_of(target.source),
            identity_of(target),
            root_id or (self.root_id if here else None),
            region,
        )

    @staticmethod
    def _foreign_region(given: Any, target: Any) -> dict[str, Any]:
        """Return the region of an hdmf 3 ``RegionBuilder``, which may be one of h5py."""
        shape = shape_of(target.data)
        if type(given).__name__ == "RegionReference":
            return region_of_h5(h5_dataset_of(target.data).file, given, shape)
        return normalize_region(given, shape)

    def is_here(self, builder: Any) -> bool:
        """Return True if a builder is one of this store, or of the file that is exported to it."""
        source = builder.source
        if source is None:
            return True
        here = self._here.get(source)
        if here is None:
            places = canonical_source(self.io.source), self.export_source
            here = self._here[source] = canonical_source(source) in places
        return here

    def name_of(self, other: str) -> str:
        """Return the name by which this store calls another."""
        source = relative_source(canonical_source(other), canonical_source(self.io.source))
        if source is None:
            if self.io.external_links == "any":
                return str(other)
            raise InvalidArgumentError(
                f"{other} has no name relative to {self.io.source}; "
                'absolute links are written only with allow_external_links="any"'
            )
        return source

    def rebased(self, value: Reference, other_io: Any, holder: HdmfStore) -> Reference:
        """Return the reference in this store that stands for one of another store."""
        try:
            store, path = other_io.stores.resolve(value, holder)
        except BrokenLinkError as e:
            warnings.warn(f"reference to {value.path}: {e.message}", BrokenLinkWarning, stacklevel=2)
            return value
        here = canonical_source(store.source) in (canonical_source(self.io.source), self.export_source)
        own = object_id_of(store.tree.nodes[path].attributes)
        return Reference(
            path,
            "." if here else self.name_of(store.source),
            value.object_id if own is None else own,
            store.object_id,
            value.region,
        )


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


def identity_of(builder: Any) -> str | None:
    """Return the identity of the object that a builder is of; None if it has none."""
    attributes = getattr(builder, "attributes", None)
    return None if attributes is None else object_id_of(attributes)
