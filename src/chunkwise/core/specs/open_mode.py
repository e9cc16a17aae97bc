"""Open modes: open existing data, create, replace, or trust the spec."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from chunkwise.core.base.arguments import as_flag, check_same_type
from chunkwise.errors import InvalidArgumentError

__all__ = ["OpenMode", "Recheck"]

Recheck: TypeAlias = bool | float | Literal["open"]
"""Staleness bound: always or never checked, since opening, or since a time in seconds since the epoch."""


@dataclass(slots=True, weakref_slot=True, eq=False, kw_only=True)
class OpenMode:
    """Open an existing array, create a new one, or either.

    Parameters
    ----------
    open : bool
        Open what exists.
    create : bool
        Create what doesn't.
    delete_existing : bool
        Remove everything under the path first; requires `create` and excludes `open`.
    assume_metadata : bool
        Neither read nor write metadata.
    assume_cached_metadata : bool
        Don't read metadata when opening; it may be read later, for example by a resize.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.OpenMode(create=True, delete_existing=True)
    OpenMode(create=True, delete_existing=True)
    """

    open: bool = False
    create: bool = False
    delete_existing: bool = False
    assume_metadata: bool = False
    assume_cached_metadata: bool = False

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, as_flag(value, name))

    def __repr__(self) -> str:
        given = ", ".join(f"{f.name}=True" for f in fields(self) if getattr(self, f.name))
        return f"OpenMode({given})"

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, OpenMode)
        return self.to_flags() == other.to_flags()

    __hash__ = None  # type: ignore[assignment]

    def to_flags(self) -> dict[str, bool]:
        """Return all flags by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def merged(self, other: OpenMode) -> OpenMode:
        """Return the mode with all flags that are set in either.

        Parameters
        ----------
        other : OpenMode
            Other flags.
        """
        return OpenMode(**{name: flag or getattr(other, name) for name, flag in self.to_flags().items()})

    def updated(self, other: OpenMode) -> OpenMode:
        """Return the mode with the flags of `other`, whose choice of open and create, if any, wins.

        Parameters
        ----------
        other : OpenMode
            Its flags are added.
        """
        out = self.merged(other)
        if other.open or other.create:
            out.open, out.create = other.open, other.create
        return out

    def resolved(self) -> OpenMode:
        """Return the effective mode: open, if neither open nor create is requested.

        Raises
        ------
        InvalidArgumentError
            For a meaningless combination.
        """
        mode = self if self.open or self.create else replace(self, open=True)
        if mode.delete_existing and not mode.create:
            raise InvalidArgumentError("Cannot specify an open mode of `delete_existing` without `create`")
        if mode.delete_existing and mode.open:
            raise InvalidArgumentError("Cannot specify an open mode of `delete_existing` with `open`")
        if (mode.assume_metadata or mode.assume_cached_metadata) and not mode.open:
            name = "assume_metadata" if mode.assume_metadata else "assume_cached_metadata"
            raise InvalidArgumentError(f"Cannot specify an open mode of `{name}` without `open`")
        return mode

    def to_json(self) -> dict[str, Any]:
        """Return the members of a spec for this mode; no members mean opening what exists."""
        out = {name: True for name, flag in self.to_flags().items() if flag}
        if not self.create:
            out.pop("open", None)
        return out
