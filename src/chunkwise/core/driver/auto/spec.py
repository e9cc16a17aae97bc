"""Specs of the driver ``auto``: an array whose format is detected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.errors import InvalidArgumentError, UnsupportedError

__all__ = ["AutoSpec", "parse_auto"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutoSpec(DriverSpec):
    """``{"driver": "auto", "kvstore": …}``: opens an existing array, creates nothing."""

    driver: ClassVar[str] = "auto"

    mode: OpenMode
    recheck: Mapping[str, Any] = field(default_factory=dict)  # staleness bounds by name
    # Source of the found array's resources; set in a bound spec.
    live: Context | None = None

    def bind(self, context: Context) -> Self:
        """Return the spec with live resources; the found array's also come from `context`."""
        return super().bind(context if self.live is None else self.live)

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live resources of the kvstore, and its context."""
        return replace(super().bind_inner(context), live=context)

    def strip(self) -> Self:
        """Return the spec without context and bound resources."""
        return replace(super().strip(), live=None)

    def with_recheck(self, **bounds: Recheck) -> Self:
        """Return the spec with staleness bounds for the found array."""
        return replace(self, recheck={**self.recheck, **bounds})

    @property
    def open_mode(self) -> OpenMode:
        """Open mode of the found array."""
        return OpenMode(open=True)

    def own_mode(self) -> OpenMode:
        """Return the open mode, as far as it is given."""
        return self.mode

    def with_open_mode(self, mode: OpenMode) -> AutoSpec:
        """Return the spec; raise for a mode that would create."""
        if mode.create or mode.delete_existing or mode.assume_metadata or mode.assume_cached_metadata:
            raise InvalidArgumentError(
                "create mode not compatible with format auto-detection: say which format is to be made, "
                f'by "driver" in a JSON spec, or in the URL, such as "{self._suggested()}"'
            )
        return self

    def _suggested(self) -> str:
        kvstore = self.kvstore
        if kvstore is None:
            return "x.zarr|zarr3:"
        place = kvstore.path
        if kvstore.driver != "file":
            try:
                place = kvstore.to_url()
            except UnsupportedError:
                place = "URL"
        return f"{place.rstrip('/')}|{'n5' if place.rstrip('/').endswith('.n5') else 'zarr3'}:"

    def url_suffix(self) -> str:
        """Return ``auto:``."""
        return "auto:"


def parse_auto(members: Members, common: SpecMembers) -> AutoSpec:
    """Take the members of a spec of this driver."""
    return AutoSpec(
        schema=common.schema,
        context=common.context,
        kvstore=common.take_kvstore(members),
        mode=OpenMode(),
    )
