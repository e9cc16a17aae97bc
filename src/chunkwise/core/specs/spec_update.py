"""Changing a spec: the options of ``Spec.update``, ``open`` and ``TensorStore.spec``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from chunkwise.core.base.arguments import as_flag, as_float
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.fill_value import NUMBERS
from chunkwise.core.specs.open_mode import OpenMode, Recheck
from chunkwise.core.specs.public_kvstore_spec import Spec as PublicKvStoreSpec
from chunkwise.core.specs.public_kvstore_spec import as_kvstore_spec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.schema_constraints import SCHEMA_OPTIONS, SchemaKeywords
from chunkwise.errors import InvalidArgumentError

__all__ = ["SpecKeywords", "identity_of", "updated_spec"]


class SpecKeywords(SchemaKeywords, total=False):
    """Keywords of `Spec.update`; None means not given."""

    open_mode: OpenMode | None
    open: bool | None
    create: bool | None
    delete_existing: bool | None
    assume_metadata: bool | None
    assume_cached_metadata: bool | None
    minimal_spec: bool | None
    unbind_context: bool | None
    strip_context: bool | None
    context: Context | None
    kvstore: PublicKvStoreSpec | None
    recheck_cached_metadata: Recheck | None
    recheck_cached_data: Recheck | None
    recheck_cached: Recheck | None


_OPTIONS: Final = tuple(SpecKeywords.__annotations__)
_OPEN_FLAGS: Final = ("open", "create", "delete_existing", "assume_metadata", "assume_cached_metadata")
_RECHECK: Final = ("recheck_cached_metadata", "recheck_cached_data", "recheck_cached")


def updated_spec(
    driver: DriverSpec, transform: IndexTransform | None, options: Mapping[str, Any]
) -> tuple[DriverSpec, IndexTransform | None]:
    """Return a spec, as driver spec and transform, with options applied."""
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"unexpected keyword argument {name!r}; expected one of {', '.join(_OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None}
    driver = _update_mode(driver, given)
    minimal, strip, unbind = [
        as_flag(given.get(name), name) for name in ("minimal_spec", "strip_context", "unbind_context")
    ]
    if minimal:
        driver = driver.minimal()
    if strip:
        driver = driver.strip()
    elif unbind:
        driver = driver.unbound()
    if "context" in given:
        if not isinstance(given["context"], Context):
            raise TypeError("Invalid context")
        driver = driver.bind(given["context"])
    if "kvstore" in given:
        if not isinstance(given["kvstore"], PublicKvStoreSpec):
            raise TypeError("Invalid kvstore")
        driver = driver.with_kvstore(as_kvstore_spec(given["kvstore"]))
    bounds = {name: _recheck(name, given[name]) for name in _RECHECK if name in given}
    if "recheck_cached" in bounds:
        both = bounds.pop("recheck_cached")
        bounds = {"recheck_cached_metadata": both, "recheck_cached_data": both}
    driver = driver.with_recheck(**bounds)
    schema_options = {name: given[name] for name in SCHEMA_OPTIONS if name in given}
    if schema_options:
        driver, transform = _update_schema(driver, transform, schema_options)
    return driver, transform


def identity_of(driver: DriverSpec) -> IndexTransform | None:
    """Return the transform of a spec without one: the identity on its domain, if known."""
    domain = driver.domain
    return None if domain is None else IndexTransform.identity(domain)


def _recheck(name: str, value: Any) -> Recheck:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value == "open":
        return "open"
    try:
        return as_float(value, name)
    except TypeError:
        raise TypeError(f"Invalid {name}") from None


def _update_mode(driver: DriverSpec, given: dict[str, Any]) -> DriverSpec:
    flags = OpenMode(**{name: as_flag(given[name], name) for name in _OPEN_FLAGS if name in given})
    if "open_mode" in given:
        if not isinstance(given["open_mode"], OpenMode):
            raise TypeError("Invalid open_mode")
        if given["open_mode"] != OpenMode():
            return driver.with_open_mode(given["open_mode"].merged(flags))
    if flags != OpenMode():
        return driver.with_open_mode(driver.own_mode().updated(flags))
    return driver


def _update_schema(
    driver: DriverSpec, transform: IndexTransform | None, options: dict[str, Any]
) -> tuple[DriverSpec, IndexTransform | None]:
    wanted = Schema()
    if driver.dtype is not None and "dtype" not in options and driver.dtype.memory_dtype.kind not in NUMBERS:
        wanted._dtype = driver.dtype
    wanted._apply(options)
    if driver.dtype is not None and wanted.dtype is not None and wanted.dtype != driver.dtype:
        raise InvalidArgumentError(
            f"Specified dtype ({wanted.dtype.name}) does not match existing value ({driver.dtype.name})"
        )
    if transform is not None:
        wanted = wanted.inverse_transformed(transform)
    driver = driver.with_schema(wanted)
    return driver, identity_of(driver) if transform is None else transform
