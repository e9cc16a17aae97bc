"""``CodecSpec``: how chunks are encoded, as a constraint that each chunked format defines for itself."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import JSON, Members, dump, expect_string, plain_json
from chunkwise.core.base.catalogue import codec_specs
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.errors import InvalidArgumentError, UnknownExtensionError, noted

__all__ = ["CodecSpec"]


class CodecSpec:
    """Constraint on the codec of an array.

    ``CodecSpec(json)`` returns an instance of the subclass that the member ``driver`` names.  Equality is
    identity; compare `to_json`.

    Parameters
    ----------
    json : JSON
        An object with the member ``driver`` and that driver's own members.

    Raises
    ------
    ValueError
        If the driver is not registered, or a member is invalid.

    Examples
    --------
    >>> import chunkwise
    >>> codec = chunkwise.CodecSpec({"driver": "n5", "compression": {"type": "gzip", "level": 6}})
    >>> codec.to_json()["compression"]["type"]
    'gzip'
    """

    driver: ClassVar[str] = ""

    def __new__(cls, json: JSON) -> CodecSpec:
        members = Members(plain_json(json))
        name = members.take("driver", expect_string, example="zarr3")
        try:
            kind: type[CodecSpec] = codec_specs.find(name)
        except UnknownExtensionError:
            error = UnknownExtensionError(
                f'Error parsing object member "driver": {dump(name)} is not registered'
            )
            raise noted(error, codec_specs.hint(name)) from None
        return kind._parse(members.rest())

    @classmethod
    def _new(cls, **members: Any) -> Self:
        """Return an instance with these checked members."""
        self = object.__new__(cls)
        vars(self).update(members)
        return self

    @classmethod
    def _parse(cls, members: dict[str, Any]) -> Self:
        """Read the members other than ``driver``."""
        raise NotImplementedError(f"{cls.__name__}._parse")

    def _members(self) -> dict[str, Any]:
        """Return the members other than ``driver``."""
        raise NotImplementedError(f"{type(self).__name__}._members")

    def _merge(self, other: Self) -> Self:
        """Merge with a constraint of the same driver."""
        raise NotImplementedError(f"{type(self).__name__}._merge")

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import json_html  # only notebooks ask

        return json_html(self)

    def to_json(self, include_defaults: bool = False) -> dict[str, Any]:
        """Return the JSON form, which always includes the defaults of members that are set.

        Parameters
        ----------
        include_defaults : bool, optional
            Accepted for TensorStore's sake; defaults are always included.
        """
        members: dict[str, Any] = plain_json(self._members())
        return dict(sorted({"driver": self.driver, **members}.items()))

    def merge(self, other: CodecSpec) -> CodecSpec:
        """Return the constraint that satisfies both; a member that one leaves open comes from the other.

        Parameters
        ----------
        other : CodecSpec
            A codec spec for the same driver.

        Raises
        ------
        ValueError
            If they are for different drivers, or differ.
        """
        if self.driver != other.driver:
            raise InvalidArgumentError(
                f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
            )
        return self._merge(other)

    def _merged(self, other: CodecSpec | None) -> Self:
        """Return the constraint that satisfies both, if there is another."""
        both: Any = self if other is None else self.merge(other)
        return both  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return pretty_repr("CodecSpec", self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return CodecSpec, (self.to_json(),)
