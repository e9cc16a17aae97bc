"""A type map and a build manager with fast answers to the questions that hdmf asks most often."""

# hdmf checks the arguments of each call by rules that it goes through anew, and asks several times for each
# object which type, namespace and class it has, in calls that are nested five deep: a quarter of the time
# that it takes to make containers.  The answers here are those of hdmf's own classes.  Nothing is kept, so
# types that are registered later count.

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy, deepcopy
from typing import Any

from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, TypeMap

__all__ = ["StoreBuildManager", "StoreTypeMap"]


class StoreTypeMap(TypeMap):  # type: ignore[misc, unused-ignore]
    """A copy of a type map."""

    def __init__(self, source: TypeMap) -> None:
        super().__init__(copy(source.namespace_catalog), type_config=deepcopy(source.type_config))
        self.merge(source)
        catalog = self.namespace_catalog
        self._type_keys = {
            GroupBuilder: catalog.group_spec_cls.type_key(),
            DatasetBuilder: catalog.dataset_spec_cls.type_key(),
        }

    def extend(self, extensions: Sequence[str | os.PathLike[str] | TypeMap]) -> None:
        """Load files of namespaces, and the namespaces of type maps; known ones are kept."""
        catalog = self.namespace_catalog
        for extension in extensions:
            if not isinstance(extension, TypeMap):
                self.load_namespaces(os.fspath(extension))
                continue
            others = extension.namespace_catalog
            for name in others.namespaces:
                if name not in catalog.namespaces:
                    catalog.add_namespace(name, others.get_namespace(name))
            self.merge(extension)

    def get_builder_dt(self, builder: Any) -> Any:
        """Return the data type of a builder; None if it has none."""
        key = self._type_keys.get(type(builder))
        found = None if key is None else builder.attributes.get(key)
        return found if type(found) is str else super().get_builder_dt(builder)

    def get_builder_ns(self, builder: Any) -> Any:
        """Return the namespace of a builder; None if it has none."""
        if type(builder) in self._type_keys:
            return builder.attributes.get("namespace")
        return super().get_builder_ns(builder)

    def get_cls(self, builder: Any) -> Any:
        """Return the container class for a builder; raises ValueError if it has no data type."""
        data_type, namespace = self.get_builder_dt(builder), self.get_builder_ns(builder)
        if data_type is None or namespace is None:
            return super().get_cls(builder)
        return self.get_dt_container_cls(data_type, namespace)


class StoreBuildManager(BuildManager):  # type: ignore[misc, unused-ignore]
    """Makes containers of builders, and builders of containers."""

    def get_builder_dt(self, builder: Any) -> Any:
        """Return the data type of a builder; None if it has none."""
        return self.type_map.get_builder_dt(builder)

    def get_builder_ns(self, builder: Any) -> Any:
        """Return the namespace of a builder; None if it has none."""
        return self.type_map.get_builder_ns(builder)

    def get_cls(self, builder: Any) -> Any:
        """Return the container class for a builder; raises ValueError if it has no data type."""
        return self.type_map.get_cls(builder)
