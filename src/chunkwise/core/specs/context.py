"""``Context``: resources that arrays and kvstores share, such as caches, threads and memory stores.

A context spec maps ``kind`` or ``kind#id`` to a configuration, to the name of another resource of the
same kind, or to null: the parent's resource of the plain kind or, without a parent, a new one with defaults.
The outermost context makes a plain kind that no context defines, with defaults.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from chunkwise.core.base.binding import JSON, MISSING, dump, expect_object, not_too_deep, plain_json
from chunkwise.core.base.catalogue import UNSUPPORTED_RESOURCES, context_resources
from chunkwise.core.base.threads import new_rlock
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.core.specs.resource_kind import ResourceConfig
from chunkwise.errors import InvalidArgumentError, SpecError, UnknownExtensionError, UnsupportedError, noted

if TYPE_CHECKING:
    from chunkwise.core.kvstore.memory import MemoryStore

__all__ = [
    "Context",
    "ContextResource",
    "ContextSpec",
    "as_context",
    "default_resources",
    "kind_of",
    "parse_resource",
]


_defaults: dict[str, ResourceConfig] = {}  # by kind; a configuration is never changed
_inline: dict[str, ContextResource] = {}  # those with defaults that are nothing but their configuration


def kind_of(key: str) -> type[Any]:
    """Return the configuration class of the kind that `key` (``kind`` or ``kind#id``) names."""
    name = str(key)
    kind = name.partition("#")[0] if "#" in name else name
    try:
        found: type[Any] = context_resources.find(kind)
    except UnknownExtensionError:
        if kind in UNSUPPORTED_RESOURCES:
            raise UnsupportedError(
                f"Context resource {dump(kind)} is not supported: {UNSUPPORTED_RESOURCES[kind]}"
            ) from None
        error = SpecError(f"Invalid context resource identifier: {dump(kind)}")
        raise noted(error, context_resources.hint(kind)) from None
    return found


def parse_resource(kind: str, value: JSON) -> str | ResourceConfig:
    """Read a member of a spec that is a resource of `kind`: a name or a configuration."""
    # Bound resources are written as a list of one such value, which is accepted too.
    if isinstance(value, list):
        if len(value) != 1:
            raise SpecError(f"Expected single-element array, but received: {dump(value)}")
        value = value[0]
    if value is None:
        raise SpecError("Expected non-null value, but received: null")
    return _parse_definition(kind, value)


def _parse_definition(kind: str, value: JSON) -> str | ResourceConfig:
    if isinstance(value, str) and value.partition("#")[0] == kind:
        return value
    try:
        config: ResourceConfig = kind_of(kind).parse(value)
    except InvalidArgumentError as e:
        if not isinstance(value, str):
            raise
        raise SpecError(
            f"Invalid spec or reference to {dump(kind)} resource: {dump(value)} ({e.message})"
        ) from None
    return config


class ContextResource:
    """One live resource; each resource is one object.

    Attributes
    ----------
    key : str
        ``kind`` or ``kind#id`` as defined, or just the kind for a resource defined in place.
    config : ResourceConfig
    value : object
        The resource itself: a MemoryStore, a limit, a cache pool.
    in_place : bool
        True if it belongs to one spec or is only its configuration, which a spec then shows instead of a
        name.
    """

    __slots__ = ("__weakref__", "_context", "config", "in_place", "key", "value")

    def __init__(self, key: str, config: ResourceConfig, context: Context | None = None) -> None:
        self.key = key
        self.config = config
        self.value = config.create()
        self.in_place = config.inline or context is None
        self._context = None if context is None else weakref.ref(context)

    @property
    def kind(self) -> str:
        """Kind of the resource."""
        return self.key.partition("#")[0]

    def to_json(self, include_defaults: bool = False) -> JSON:
        """Return the configuration."""
        return self.config.to_json(include_defaults=include_defaults)

    def __repr__(self) -> str:
        return pretty_repr("Context.Resource", self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        context = None if self._context is None else self._context()
        from chunkwise.core.kvstore.memory import MemoryStore
        from chunkwise.core.kvstore.this_process import AbsentStore

        # A storage is data, so it is not created anew with the resource.
        state = self.value if isinstance(self.value, MemoryStore | AbsentStore) else None
        if context is not None:
            return operator.getitem, (context, self.key), state
        return _unpickle_resource, (self.key, self.to_json(include_defaults=True), self.in_place), state

    def __setstate__(self, value: MemoryStore) -> None:
        self.value = value


def _unpickle_resource(key: str, value: JSON, in_place: bool) -> ContextResource:
    resource = ContextResource(key, kind_of(key).parse(value))
    resource.in_place = in_place  # other pickled objects may share it
    return resource


class ContextSpec:
    """Definitions of resources that don't exist yet.

    Parameters
    ----------
    json : JSON
        An object with members ``kind`` or ``kind#id``.
    """

    __slots__ = ("__weakref__", "_members")

    @not_too_deep
    def __init__(self, json: JSON) -> None:
        self._members: dict[str, str | ResourceConfig | None] = {}
        for key, value in expect_object(plain_json(json)).items():
            kind_of(key)
            self._members[key] = None if value is None else _parse_definition(key.partition("#")[0], value)

    @property
    def members(self) -> Mapping[str, str | ResourceConfig | None]:
        """Name of another resource, configuration or None, by key."""
        return self._members

    def to_json(self, include_defaults: bool = False) -> dict[str, JSON]:
        """Return the JSON form."""
        return {
            key: value
            if value is None or isinstance(value, str)
            else value.to_json(include_defaults=include_defaults)
            for key, value in sorted(self._members.items())
        }

    def __repr__(self) -> str:
        return pretty_repr("Context.Spec", self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return ContextSpec, (self.to_json(),)


class Context:
    """A set of resources, created on first use.

    Parameters
    ----------
    json : Context.Spec or JSON, optional
        Definitions.
    parent : Context, optional
        Where to look up resources that are not defined here.
    spec : Context.Spec, optional
        Another name for the first argument.

    Examples
    --------
    >>> import chunkwise
    >>> context = chunkwise.Context({"cache_pool": {"total_bytes_limit": 1000000}})
    >>> context["cache_pool"]
    Context.Resource({'total_bytes_limit': 1000000})
    """

    Spec: TypeAlias = ContextSpec
    Resource: TypeAlias = ContextResource

    __slots__ = ("__weakref__", "_lock", "_parent", "_resources", "_spec")

    @not_too_deep
    def __init__(
        self,
        json: ContextSpec | JSON = MISSING,
        parent: Context | None = None,
        *,
        spec: ContextSpec = MISSING,
    ) -> None:
        if parent is not None and not isinstance(parent, Context):
            raise TypeError(f"parent must be a Context or None, got {type(parent).__name__}")
        given = spec if json is MISSING else json
        self._spec = (
            None if given is MISSING else given if isinstance(given, ContextSpec) else ContextSpec(given)
        )
        self._parent = parent
        self._resources: dict[str, ContextResource] = {}
        self._lock = new_rlock()

    @property
    def spec(self) -> ContextSpec | None:
        """Definitions of this context, without those of its parent; None without any."""
        return self._spec

    @property
    def parent(self) -> Context | None:
        """Context in which the search continues."""
        return self._parent

    def __getitem__(self, key: str) -> ContextResource:
        """Return the resource of `key` in this context.

        Raises
        ------
        ValueError
            If its kind is unknown, it is not defined, or its definition refers to itself.
        """
        if not isinstance(key, str):
            raise TypeError(f"key must be str, got {type(key).__name__}")
        context = self
        while context._spec is None or key not in context._spec._members:
            if context._parent is None:
                # most are defaults of the outermost context
                found = context._resources.get(key) or _inline.get(key)
                return found or context._resolve(key, ())
            context = context._parent
        return context._resources.get(key) or context._resolve(key, ())

    __iter__ = None
    __contains__ = None

    def _resolve(self, key: str, steps: tuple[tuple[Context, str, str], ...]) -> ContextResource:
        """Find `key` here or in a parent; `steps` are the references that led here."""
        context = self
        while True:
            if context._spec is not None and key in context._spec.members:
                value = context._spec.members[key]
                if value is not None or context._parent is None:
                    return context._own(key, value, steps)
                key = key.partition("#")[0]
            if context._parent is None:
                break
            context = context._parent
        if "#" in key:
            kind_of(key)
            raise InvalidArgumentError(f"Resource not defined: {dump(key)}")
        return context._own(key, None, steps)

    def _own(
        self, key: str, value: str | ResourceConfig | None, steps: tuple[tuple[Context, str, str], ...]
    ) -> ContextResource:
        with self._lock:
            resource = self._resources.get(key)
            if resource is None:
                if isinstance(value, str):
                    step = (self, key, value)
                    if step in steps:
                        raise InvalidArgumentError(_cycle(steps[steps.index(step) :]))
                    resource = self._resolve(value, (*steps, step))
                else:
                    config = _default(key) if value is None else value
                    if value is None and config.inline and "#" not in key:
                        return _inline.setdefault(key, ContextResource(key, config))
                    resource = ContextResource(key, config, self)
                self._resources[key] = resource
            return resource

    def __copy__(self) -> Context:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_context, (self._spec, self._parent)


def default_resources(json: JSON) -> AbstractContextManager[None]:
    """Return a context manager that takes default resources from `json`, for those not defined elsewhere."""
    # It affects the whole process, like the options of a command line.
    return _defaults_replaced(
        {kind: kind_of(kind).parse(value) for kind, value in expect_object(json).items()}
    )


@contextmanager
def _defaults_replaced(configs: Mapping[str, ResourceConfig]) -> Iterator[None]:
    before = {kind: _default(kind) for kind in configs}
    try:
        _set_defaults(configs)
        yield
    finally:
        _set_defaults(before)


def _set_defaults(configs: Mapping[str, ResourceConfig]) -> None:
    for kind, config in configs.items():
        _defaults[kind] = config
        _inline.pop(kind, None)


def _default(key: str) -> ResourceConfig:
    config = _defaults.get(key)
    if config is None:
        config = kind_of(key)()
        if "#" not in key:
            _defaults[key] = config
    return config


def _cycle(steps: tuple[tuple[Context, str, str], ...]) -> str:
    """Describe a cycle of definitions, beginning with the reference that closes it."""
    links = [f"{dump(key)}:{dump(target)}" for _, key, target in (steps[-1], *steps[:-1])]
    return f"Context resource reference cycle: {' -> '.join(links)}"


def _unpickle_context(spec: ContextSpec | None, parent: Context | None) -> Context:
    return Context(MISSING if spec is None else spec, parent)


def as_context(context: Context | None) -> Context:
    """Return the context given to a call, or a new one for None."""
    if context is None:
        return Context()
    if not isinstance(context, Context):
        raise TypeError(f"Invalid context: expected a Context, but received {context!r}")
    return context
