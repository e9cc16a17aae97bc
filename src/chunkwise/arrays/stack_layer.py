"""The layers of an open stack: each is open, or says how to open it when an operation needs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from chunkwise.arrays.based import Base, open_base
from chunkwise.arrays.layer_sites import NO_SITE, Finder, Site, SpecSites, open_finder
from chunkwise.arrays.protocol import WrapStore
from chunkwise.arrays.site_columns import Divided, SiteColumns
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix
from chunkwise.index_space import IndexDomain
from chunkwise.kvstore.protocol import Reader
from chunkwise.plan.stack_part import HOLE, StackParts
from chunkwise.spec.schema import Schema
from chunkwise.spec.spec import Spec

__all__ = ["Layer", "StackLayers", "naming"]

# Kvstores that answer at once; of others several requests are kept under way.
_LOCAL = ("file", "memory", "zip")


class Layer(NamedTuple):
    """A layer: open, or how to open it.

    Attributes
    ----------
    base : Base or None
        An open array, with the transform from the stack to it.
    spec : Spec or None
        A bound spec; None if there is `base`.
    domain : IndexDomain
        Where it lies in the stack.
    """

    base: Base | None
    spec: Spec | None
    domain: IndexDomain

    @property
    def local(self) -> bool:
        """Whether reading it means no waiting for a network."""
        driver = self.base.array.spec() if self.spec is None and self.base is not None else None
        if self.spec is not None:
            driver = self.spec._driver
        store = None if driver is None else driver.key_value_store
        return store is None or store.driver in _LOCAL

    def schema(self) -> Schema:
        """What is known of it, in the index space of the stack."""
        if self.base is not None:
            return self.base.array.schema().transformed(self.base.transform)
        assert self.spec is not None
        return self.spec.schema

    def as_spec(self) -> Spec:
        """Return a spec that opens it again."""
        if self.base is None and self.spec is not None:
            return self.spec
        assert self.base is not None
        return self.base.spec()

    def opened(self, number: int, wrap: WrapStore | None, *, write: bool) -> Base:
        """Return the layer open for reading, or for writing.

        Raises
        ------
        ChunkwiseError
            With the number of the layer in front.
        """
        if self.base is None:
            assert self.spec is not None
            driver = self.spec._driver
            try:
                if not write and driver.own_mode().create:
                    error = InvalidArgumentError("Cannot specify an open mode of `create` without `write`")
                    raise prefix(error, f'Error opening "{driver.driver}" driver')
                base = open_base(self.spec, readable=not write, writable=write, wrap=wrap)
            except ChunkwiseError as e:
                raise prefix(e, f"While opening layer {number}") from None
        else:
            base = self.base
        if write and not base.array.writable:
            raise InvalidArgumentError(f"Layer {number}: Write mode not supported")
        if not write and not base.array.readable:
            raise InvalidArgumentError(f"Layer {number}: Read mode not supported")
        return base


class StackLayers:
    """Layers by number, as an operation needs them.

    Parameters
    ----------
    layers : sequence of Layer
        Later ones on top.
    wrap : callable or None
        Gives stores as a transaction sees them.
    """

    def __init__(self, layers: Sequence[Layer], wrap: WrapStore | None) -> None:
        self.layers = layers
        self._wrap = wrap
        self._local: dict[int, bool] = {}
        self._spec_sites = SpecSites()
        self._finders: list[Finder | None] = [*[None] * len(layers), NO_SITE]  # the last one for HOLE
        self._columns: SiteColumns | None = None

    def in_transaction(self, wrap: WrapStore | None) -> StackLayers:
        """Return the layers as a transaction sees them, or, with None, as they are outside."""
        layers = [
            layer if layer.base is None else layer._replace(base=layer.base.in_transaction(wrap))
            for layer in self.layers
        ]
        return StackLayers(layers, wrap)

    def site(self, number: int, fetch: Reader) -> Site | None:
        """Return where a layer can be read without being opened; None if it can't."""
        return self._finder(number).find(fetch)

    def divide(self, parts: StackParts, rows: range, fetch: Reader) -> tuple[Divided, SiteColumns]:
        """Divide parts by how their layers are read; return also what is known of these."""
        columns = self._columns
        if columns is None or not columns.is_current:
            rank = self.layers[0].domain.rank if self.layers else 0
            columns = self._columns = SiteColumns(len(self.layers), rank)
        return columns.divide(parts, rows, self._finder, fetch), columns

    def _finder(self, number: int) -> Finder:
        finder = self._finders[number]
        if finder is None:
            finder = self._finders[number] = self._open_finder(*self.layers[number])
        return finder

    def _open_finder(self, base: Base | None, spec: Spec | None, domain: IndexDomain) -> Finder:
        if self._wrap is not None:
            return NO_SITE
        if spec is not None:
            return self._spec_sites.finder(spec, domain)
        return NO_SITE if base is None else open_finder(base, domain)

    def is_local(self, number: int) -> bool:
        known = self._local.get(number)
        if known is None:
            known = self._local[number] = number == HOLE or self.layers[number].local
        return known

    def opened(self, number: int, *, write: bool) -> Base | None:
        return None if number == HOLE else self.layers[number].opened(number, self._wrap, write=write)


@contextmanager
def naming(layer: int) -> Iterator[None]:
    """Say in errors which layer they are about."""
    try:
        yield
    except ChunkwiseError as e:
        raise prefix(e, f"Layer {layer}") from None
