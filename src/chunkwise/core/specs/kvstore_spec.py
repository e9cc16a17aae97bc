"""``KvStore.Spec``: which kvstore, and the prefix of keys in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, cast

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_object, expect_string
from chunkwise.core.base.catalogue import kvstores
from chunkwise.core.base.extras import is_of
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.context import ContextResource, ContextSpec
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.core.specs.resource_members import ResourceUser, take_resources
from chunkwise.errors import InvalidArgumentError, UnknownExtensionError, UnsupportedError, noted, prefix

if TYPE_CHECKING:
    from chunkwise.core.specs.resources import ConcurrencyLimit

__all__ = [
    "KvStoreSpec",
    "Locatable",
    "is_kvstore_driver",
    "is_kvstore_object",
    "kvstore_missing",
    "member",
    "parse_kvstore_spec",
    "place_of",
]


class _Member(NamedTuple):
    name: str
    parse: Callable[[JSON], Any]
    default: tuple[Any, ...]  # empty if the member is required
    shown: Literal["always", "with defaults", "if set"]
    to_json: Callable[[Any], Any]
    example: JSON


def member(
    name: str,
    parse: Callable[[JSON], Any],
    *default: Any,
    shown: Literal["always", "with defaults", "if set"] = "always",
    to_json: Callable[[Any], Any] = lambda value: value,
    example: JSON = None,
) -> Any:
    """Return the field for member `name` of a spec's JSON, which is required if there is no default.

    JSON has it always, or unless it is the default, except that ``include_defaults`` may ask for it.
    """
    kind = _Member(name, parse, default, shown, to_json, example)
    if default:
        return field(default=default[0], metadata={"member": kind})
    return field(metadata={"member": kind})


@cache
def _members_of(spec: type) -> dict[str, _Member]:
    """Return the members by the names of fields."""
    return {f.name: f.metadata["member"] for f in fields(spec) if "member" in f.metadata}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KvStoreSpec(ResourceUser):
    """A kvstore driver, its members, and a path: a plain prefix of keys."""

    driver: ClassVar[str] = ""

    path: str = ""

    # -- for each driver ------------------------------------------------------------------------------

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take the driver's own members; return them as fields."""
        return {
            key: members.take(m.name, m.parse, *m.default, example=m.example)
            for key, m in _members_of(cast(type, cls)).items()
        }

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the driver's own members."""
        out = {}
        for key, m in _members_of(cast(type, type(self))).items():
            value = getattr(self, key)
            shown = m.shown == "always" or (include_defaults and m.shown == "with defaults")
            if shown or value != m.default[0]:
                out[m.name] = m.to_json(value)
        return out

    def inner_members(self, inner: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the members with the specs inside this one, from their JSON."""
        return {}

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of a bound spec, and its prefix for keys under `path`."""
        raise UnsupportedError(f"{self.driver} can't be opened")

    def as_opened(self, store: KvStoreDriver) -> Self:
        """Return the spec with details that `store`, opened from it, knows by now."""
        return self

    def to_url(self) -> str:
        """Return the URL; raise UnsupportedError if there is none."""
        raise UnsupportedError("URL representation not supported")

    @property
    def base(self) -> KvStoreSpec | None:
        """The kvstore that this one adapts, if any."""
        return None

    @property
    def is_remote(self) -> bool:
        """True if operations wait for a network, or for something unknown."""
        return self.driver not in ("memory", "file")

    @property
    def outlives_process(self) -> bool:
        """True if its `identity` names the same values in any other process, and later."""
        return self.driver not in ("memory", "object")

    # -- for all --------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, members: Members) -> Self:
        """Take the members of a spec of this driver."""
        path = members.take("path", expect_string, "")
        context = members.take("context", ContextSpec, None)
        resources = take_resources(members, cls.resource_kinds)
        own = cls.parse_members(members)
        members.finish()
        return cls(path=cls.normal_path(path), context=context, resources=resources, **own)

    @classmethod
    def normal_path(cls, path: str) -> str:
        """Return `path` in this driver's form, or raise if it is invalid."""
        return path

    def joined(self, path: str) -> Self:
        """Return the spec with `path` appended as further components."""
        if not path:
            return self
        own = self.path
        if own and not own.endswith("/") and not path.startswith("/"):
            own += "/"
        return self.with_path(own + path)

    def with_path(self, path: str) -> Self:
        """Return the spec with another path; an invalid one is noticed when a key is used."""
        return replace(self, path=path)

    def as_directory(self) -> Self:
        """Return the spec with a path that is empty or ends in "/"."""
        return self if not self.path or self.path.endswith("/") else self.with_path(self.path + "/")

    def __truediv__(self, path: str) -> Self:
        return self.joined(path)

    def __add__(self, suffix: str) -> Self:
        return self.with_path(self.path + suffix)

    @property
    def url(self) -> str:
        """The URL; raises NotImplementedError if there is none."""
        return self.to_url()

    def live_resources(self) -> dict[str, ContextResource]:
        """Return the bound resources that other specs may share, by kind."""
        return {
            kind: resource
            for kind, resource in self.resources.items()
            if isinstance(resource, ContextResource) and not resource.in_place
        }

    def live(self, kind: str) -> Any:
        """Return the bound resource of `kind`, or None."""
        resource = self.resources.get(kind)
        return resource.value if isinstance(resource, ContextResource) else None

    def copy_limit(self) -> ConcurrencyLimit | None:
        """Return the first numeric ``data_copy_concurrency``, here or in a store below, or None."""
        limit: ConcurrencyLimit | None = self.live("data_copy_concurrency")
        if limit is not None and limit.limit is not None:
            return limit
        return next(filter(None, (spec.copy_limit() for spec in self.inner())), None)

    def to_json(
        self, include_defaults: bool = False, *, names: Mapping[int, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON form."""
        out: dict[str, Any] = {"driver": self.driver}
        if self.path or include_defaults:
            out["path"] = self.path
        own, names = self.resource_members(include_defaults, names)
        out.update(own)
        out.update(self.own_members(include_defaults))
        out.update(self.inner_members([spec.to_json(include_defaults, names=names) for spec in self.inner()]))
        return dict(sorted(out.items()))

    def __repr__(self) -> str:
        return pretty_repr("KvStore.Spec", self.to_json())

    def __eq__(self, other: object) -> bool:
        return self.to_json() == other.to_json() if isinstance(other, KvStoreSpec) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class Locatable(ABC):
    """An open kvstore, in the form that users have."""

    __slots__ = ()

    @abstractmethod
    def _bound_spec(self) -> KvStoreSpec:
        """Return the bound spec of the keys under its prefix; raise UnsupportedError in a transaction."""


def kvstore_missing() -> InvalidArgumentError:
    """Return the error for a spec without a location of its array."""
    example = dump({"kvstore": "file:///data/a.zarr/"})
    return noted(InvalidArgumentError('"kvstore" must be specified'), f"for example {example}")


def is_kvstore_driver(name: str) -> bool:
    """Return True if `name` is the id of a kvstore driver."""
    return name in kvstores.names()


def is_kvstore_object(member: str, value: object) -> bool:
    """Return True if `value`, in a member `name`, is itself a store, of obstore, fsspec or the user."""
    if member not in ("kvstore", "object") or isinstance(value, type):
        return False
    if isinstance(value, MutableMapping):
        # Values of bytes, which JSON can't have.
        first = next(iter(value.values()), None)
        if isinstance(first, bytes | bytearray | memoryview) or (member == "object" and not value):
            return True
    return (
        isinstance(value, KvStoreSpec)
        or hasattr(value, "fs")  # a mapper of fsspec is a Mapping with this attribute
        or hasattr(value, "cat_file")  # a file system of fsspec, which has a JSON form too
        or not (
            hasattr(value, "to_json")
            or isinstance(value, Mapping)
            or type(value).__module__ in ("builtins", "numpy")
        )
    )


def parse_kvstore_spec(value: JSON, from_url: Callable[[str], KvStoreSpec]) -> KvStoreSpec:
    """Read the spec of a kvstore."""
    if isinstance(value, KvStoreSpec):
        return value
    if isinstance(value, Locatable):
        return value._bound_spec()
    if isinstance(value, str):
        return from_url(value)
    if is_kvstore_object("kvstore", value) and value is not MISSING:
        value = {"driver": "object", "object": value}  # of obstore or fsspec; the driver refuses others
    members = Members(expect_object(value))
    name = members.take("driver", expect_string, example="file")
    try:
        kind: type[KvStoreSpec] = kvstores.find(name)
    except UnknownExtensionError:
        error = UnknownExtensionError(f"{dump(name)} is not a registered KvStore driver")
        raise noted(prefix(error, 'Error parsing object member "driver"'), kvstores.hint(name)) from None
    return kind.parse(members)


def place_of(value: object) -> str:
    """Return the place of an array or a group of zarr-python or h5py, as Python code; else nothing."""
    if is_of(value, "h5py"):
        member: Any = value
        return f'"{member.file.filename}|hdf5:{member.name.lstrip("/")}"'
    if not is_of(value, "zarr"):
        return ""
    path = getattr(value, "path", "")
    return f'{{"driver": "object", "object": x.store, "path": {dump(path)}}}' if path else "x.store"
