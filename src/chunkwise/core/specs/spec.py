"""``Spec``: an array described in JSON: a driver, its members, and an index transform on top."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from chunkwise.core.base.arguments import check_same_type
from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_object,
    expect_string,
    not_too_deep,
    plain_json,
)
from chunkwise.core.base.catalogue import drivers
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import Indexable, IndexDomain, IndexingMixin, IndexTransform
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.kvstore_spec import is_kvstore_driver, is_kvstore_object
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.core.specs.public_kvstore_spec import Spec as PublicKvStoreSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec_update import SpecKeywords, identity_of, updated_spec
from chunkwise.core.specs.unit import Unit
from chunkwise.core.specs.url import spec_json_from_url
from chunkwise.errors import (
    InvalidArgumentError,
    SpecError,
    UnknownExtensionError,
    UnsupportedError,
    noted,
    prefix,
)

__all__ = ["Spec", "parse_driver_spec"]


class Spec(IndexingMixin):
    """Description of an array to open or create.

    Parameters
    ----------
    json : JSON
        An object with the member ``driver``, or a URL.

    Raises
    ------
    ValueError
        If it is not valid; the text names the member.

    Examples
    --------
    >>> import chunkwise
    >>> spec = chunkwise.Spec({"driver": "n5", "kvstore": "memory://a/"})
    >>> spec.update(dtype=chunkwise.uint8)
    >>> spec.to_json()
    {'driver': 'n5', 'dtype': 'uint8', 'kvstore': {'driver': 'memory', 'path': 'a/'}}
    """

    __slots__ = ("__weakref__", "_driver", "_transform")

    _driver: DriverSpec
    _transform: IndexTransform | None

    @not_too_deep
    def __init__(self, json: JSON) -> None:
        if isinstance(json, Spec):
            self._driver, self._transform = json._driver, json._transform
            return
        from_url = isinstance(json, str)
        if from_url:
            json = spec_json_from_url(json)
        self._driver, self._transform = _parse(plain_json(json, _is_kept))
        if from_url:  # as in TensorStore, a URL doesn't specify the index space, whatever the driver
            self._driver, self._transform = self._driver.of_url(), None

    @classmethod
    def _of(cls, driver: DriverSpec, transform: IndexTransform | None) -> Spec:
        self = cls.__new__(cls)
        self._driver = driver
        self._transform = transform
        return self

    # -- contents ---------------------------------------------------------------------------------

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if unknown."""
        return self._driver.rank if self._transform is None else self._transform.input_rank

    ndim = rank

    @property
    def dtype(self) -> DataType | None:
        """Data type; None if unknown."""
        return self._driver.dtype

    @property
    def transform(self) -> IndexTransform | None:
        """Transform from the index space of the spec to that of the driver; None if unknown."""
        return self._transform

    @property
    def domain(self) -> IndexDomain | None:
        """Domain; None if unknown."""
        return self._driver.domain if self._transform is None else self._transform.domain

    def _known_rank(self) -> IndexDomain:
        if self._transform is not None:
            return self._transform.domain
        rank = self.rank
        if rank is None:
            raise InvalidArgumentError("Cannot perform indexing operations on Spec with unspecified rank")
        return IndexDomain(rank=rank)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension; 2**63 - 1 if unknown."""
        return self._known_rank().shape

    @property
    def origin(self) -> tuple[int, ...]:
        """Lower bound of each dimension."""
        return self._known_rank().inclusive_min

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._known_rank().size

    @property
    def schema(self) -> Schema:
        """Everything known, in the index space of the spec."""
        return self._seen(self._driver.effective_schema())

    def _member_schema(self, name: str) -> Schema:
        return self._seen(self._driver.member_schema(name))

    def _seen(self, schema: Schema) -> Schema:
        if self._transform is None:
            return schema
        return schema.transformed(self._transform, keep_domain=True)

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Constraints on chunks."""
        return self._member_schema("chunk_layout").chunk_layout

    @property
    def codec(self) -> CodecSpec | None:
        """Constraint on the codec."""
        return self._member_schema("codec").codec

    @property
    def fill_value(self) -> Any:
        """Fill value; None if unknown."""
        return self._member_schema("fill_value").fill_value

    @property
    def dimension_units(self) -> tuple[Unit | None, ...] | None:
        """Units of the dimensions; None if the rank is unknown."""
        return self._member_schema("dimension_units").dimension_units

    @property
    def open_mode(self) -> OpenMode:
        """Open mode."""
        return self._driver.open_mode

    @property
    def kvstore(self) -> PublicKvStoreSpec | None:
        """The kvstore, if there is one."""
        record = self._driver.key_value_store
        return None if record is None else PublicKvStoreSpec._of(record)

    @property
    def base(self) -> Spec | None:
        """The spec that this one adapts, if any."""
        based = getattr(self._driver, "base_spec", None)
        return None if based is None else based(self._transform)

    @property
    def url(self) -> str:
        """Canonical URL, which can't include the transform."""
        return self._driver.url()

    # -- changing it ------------------------------------------------------------------------------

    def update(self, **options: Unpack[SpecKeywords]) -> None:
        """Add constraints and change options; on error nothing is changed.

        True flags of the open mode are added to those already set; `open_mode` replaces them.  Constraints on
        the schema are in the index space of the spec.

        Parameters
        ----------
        **options
            Those of the constructor, such as ``dtype``, ``shape`` (in elements), ``create`` and ``kvstore``.

        Raises
        ------
        ValueError
            If a constraint contradicts one that is there.
        """
        self._driver, self._transform = updated_spec(self._driver, self._transform, options)

    def copy(self) -> Spec:
        """Return an independent copy."""
        return Spec._of(self._driver, self._transform)

    def _apply_transform_fn(self, fn: Callable[[IndexTransform], IndexTransform]) -> Spec:
        transform = self._transform
        if transform is None:
            transform = IndexTransform.identity(self._known_rank())
        return Spec._of(self._driver, fn(transform))

    # -- JSON -------------------------------------------------------------------------------------

    @not_too_deep
    def to_json(self, include_defaults: bool = False) -> dict[str, JSON]:
        """Return the JSON form; members at their default are left out unless requested.

        Live resources become definitions in the member ``context``.

        Parameters
        ----------
        include_defaults : bool, optional
            Also the members that are at their default.

        Returns
        -------
        dict
        """
        return Spec._of(self._driver.unbound(), self._transform)._named_json(include_defaults, None)

    def _named_json(self, include_defaults: bool, names: Mapping[int, str] | None) -> dict[str, JSON]:
        """Return the JSON form, with names for bound resources that are defined further out."""
        out = self._driver.to_members(include_defaults, names=names)
        schema = self._driver.schema.to_json()
        dtype = self._driver.dtype
        if dtype is not None:
            out["dtype"] = dtype.to_json()
        rank = schema.get("rank", self.rank)
        if self._transform is not None:
            out["transform"] = self._transform.to_json()
        elif rank is not None and self._driver.shows_rank and ("domain" not in schema or self._driver.rank):
            out["rank"] = rank
        if include_defaults:
            out["schema"] = schema
        else:
            schema.pop("dtype", None)
            if "domain" in schema or self._transform is not None or "rank" in out or len(schema) > 1:
                schema.pop("rank", None)
            if schema and schema != {"rank": rank}:
                out["schema"] = schema
        return _in_order(out)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        try:
            return pretty_repr(
                "Spec", lambda: Spec._of(self._driver.abbreviated(), self._transform)._named_json(False, None)
            )
        except UnsupportedError:  # functions have no JSON
            return "Spec(...)"

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import panel, text_block

        return panel("Spec", text_block(repr(self)))

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, Spec)
        names, others = dict[int, str](), dict[int, str]()
        self._driver.name_bound(names, {})
        other._driver.name_bound(others, {})
        # The same JSON with resources of two contexts is, for example, two arrays in memory.
        return names == others and self._named_json(False, None) == other._named_json(False, None)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Spec._of, (self._driver, self._transform)


Indexable.register(Spec)


def _is_kept(member: str, value: object) -> bool:
    """Return True if a member of this name may hold such an object itself."""
    return isinstance(value, Spec | os.PathLike) or is_kvstore_object(member, value)


def _in_order(value: JSON) -> JSON:
    """Return `value` with the members of all objects in alphabetical order."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _parse(json: JSON) -> tuple[DriverSpec, IndexTransform | None]:
    members = Members(expect_object(json))
    if isinstance(json.get("driver"), str) and is_kvstore_driver(json["driver"]):
        members = Members({"driver": "auto", "kvstore": json})
    name = members.take("driver", expect_string, example="zarr3")
    try:
        parse = drivers.find(name)
    except UnknownExtensionError:
        error = UnknownExtensionError(f"{dump(name)} is not a registered TensorStore driver")
        raise noted(prefix(error, 'Error parsing object member "driver"'), drivers.hint(name)) from None
    transform = members.take("transform", lambda v: IndexTransform(json=v), None)
    common, rank = SpecMembers.take(members, rank_is_of_driver=transform is None)
    driver: DriverSpec = parse(members, common)
    members.finish()
    driver.check_consistent()
    own_rank = driver.rank
    if transform is not None:
        if rank is not None and rank != transform.input_rank:
            raise SpecError(
                f'Error parsing object member "rank": Specified rank ({rank}) does not match input rank '
                f"of transform ({transform.input_rank})"
            )
        if own_rank is not None and own_rank != transform.output_rank:
            raise SpecError(
                f'Error parsing object member "transform": Expected output rank of {own_rank}, '
                f"but transform has output rank {transform.output_rank}"
            )
        if own_rank is None:
            driver = driver.with_schema(Schema(rank=transform.output_rank))
        return driver, transform
    return driver, identity_of(driver)


def parse_driver_spec(json: JSON) -> Spec:
    """Return the spec in a member that holds an array: JSON, a URL or a path-like object."""
    if isinstance(json, Spec):
        return json
    if isinstance(json, os.PathLike):
        json = os.fspath(json)
    return Spec(json)
