"""``KvStore.Spec``: the kvstore spec of the Python API, which can be changed in place."""

from __future__ import annotations

from typing import Any

from chunkwise.core.base.binding import JSON, not_too_deep, plain_json
from chunkwise.core.kvstore.key_range import decode_key
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import kvstore_from_url
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, is_kvstore_object, parse_kvstore_spec
from chunkwise.core.specs.pretty import pretty_repr

__all__ = ["Spec", "as_kvstore_spec"]


class Spec:
    """A kvstore, and a prefix of the keys in it.

    Parameters
    ----------
    json : JSON, str or KvStore.Spec
        An object with the member ``driver``, or a URL.

    Raises
    ------
    ValueError
        If the driver isn't registered, or a member or the URL is invalid.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.KvStore.Spec("memory://a") / "b"
    KvStore.Spec({'driver': 'memory', 'path': 'a/b'})
    """

    __slots__ = ("__weakref__", "_record")

    _record: KvStoreSpec

    def __init__(self, json: JSON) -> None:
        self._record = as_kvstore_spec(json)

    @classmethod
    def _of(cls, record: KvStoreSpec) -> Spec:
        self = cls.__new__(cls)
        self._record = record
        return self

    @property
    def path(self) -> str:
        """Prefix of all keys; can be set."""
        return self._record.path

    @path.setter
    def path(self, value: str | bytes) -> None:
        self._record = self._record.with_path(_text(value, "path"))

    @property
    def url(self) -> str:
        """URL of the kvstore; raises ValueError or NotImplementedError if it has none."""
        return self._record.url

    @property
    def base(self) -> Spec | None:
        """The kvstore that this one adapts, if any."""
        base = self._record.base
        return None if base is None else Spec._of(base)

    def update(
        self,
        *,
        unbind_context: bool | None = None,
        strip_context: bool | None = None,
        context: Context | None = None,
    ) -> None:
        """Change how the spec holds its context resources.

        Parameters
        ----------
        unbind_context : bool, optional
            Turn live resources into definitions in the member ``context``.
        strip_context : bool, optional
            Drop live resources and definitions, so that all resources are the default ones.
        context : Context, optional
            Where to find resources that are not live yet.
        """
        if context is not None and not isinstance(context, Context):
            raise TypeError("Invalid context")
        record = self._record
        if strip_context:
            record = record.strip()
        elif unbind_context:
            record = record.unbound()
        if context is not None and not unbind_context:
            record = record.bind(context)
        self._record = record

    def copy(self) -> Spec:
        """Return an independent copy."""
        return Spec._of(self._record)

    __copy__ = copy

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON form; live resources become definitions in the member ``context``."""
        return self._record.unbound().to_json(include_defaults)

    def __truediv__(self, component: str | bytes) -> Spec:
        return Spec._of(self._record / _text(component, "component"))

    def __add__(self, suffix: str | bytes) -> Spec:
        return Spec._of(self._record + _text(suffix, "suffix"))

    def __repr__(self) -> str:
        return pretty_repr("KvStore.Spec", self._record.to_json())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            raise TypeError(
                f"KvStore.Spec can be compared with KvStore.Spec only, not {type(other).__name__}"
            )
        own, others = self._record, other._record
        return own.to_json() == others.to_json() and own.live_resources() == others.live_resources()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Spec._of, (self._record,)


@not_too_deep
def as_kvstore_spec(spec: JSON | Spec) -> KvStoreSpec:
    """Return the record of a spec, its JSON or a URL."""
    if isinstance(spec, Spec):
        return spec._record
    return parse_kvstore_spec(plain_json(spec, is_kvstore_object, member="kvstore"), kvstore_from_url)


def _text(value: object, name: str) -> str:
    if isinstance(value, bytes):
        return decode_key(value)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be bytes or str, got {type(value).__name__}")
    return value
