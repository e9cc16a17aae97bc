"""The layers of an open stack: each is open, or a spec that is opened when an operation needs it.

`StackLayers` opens a layer of a stack, or finds its `LayerSource`, with which a chunked array in local files
is read without being opened (`chunkwise.core.arrays.layer_source`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from chunkwise.core.arrays.base_array import Base, open_base
from chunkwise.core.arrays.layer_source import (
    FILES,
    FindSource,
    LayerSource,
    Templates,
    find_of_base,
    find_of_spec,
    no_source,
)
from chunkwise.core.arrays.protocol import WrapStore
from chunkwise.core.base.metrics import Counter
from chunkwise.core.engine.abandoned_changes import EVERYWHERE
from chunkwise.core.engine.derived_futures import gather, map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop, in_event_loop
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.core.plan.layer_requests import NO_LAYER, LayerRequest
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix

__all__ = ["Layer", "StackLayers", "naming"]

_count_opened = Counter("/chunkwise/stack/layers_opened").add

Do: TypeAlias = Callable[["Base | None", LayerRequest], Future[Any]]
"""Reads or writes a part of a layer opened for it, or of a hole if None."""


class Layer(NamedTuple):
    """An open layer, or its bound spec."""

    source: Base | Spec  # the layer with the transform from the stack
    domain: IndexDomain  # domain in the stack

    @property
    def is_remote(self) -> bool:
        """True if reading the layer may wait for a network."""
        if isinstance(self.source, Spec):
            return self.source._driver.is_remote
        from chunkwise.core.arrays.chunked import ChunkedArray  # few stacks open their layers

        array = self.source.array
        return array.is_remote if type(array) is ChunkedArray else array.spec().is_remote

    @property
    def in_memory(self) -> bool:
        """True if reading the layer uses no store."""
        if isinstance(self.source, Spec):
            return self.source._driver.in_memory
        return bool(getattr(self.source.array, "in_memory", False))

    def schema(self) -> Schema:
        """Return the known schema of the layer, in the index space of the stack."""
        if isinstance(self.source, Spec):
            return self.source.schema
        return self.source.array.schema().transformed(self.source.transform)

    def as_spec(self) -> Spec:
        """Return a spec that opens the layer again."""
        return self.source if isinstance(self.source, Spec) else self.source.spec()

    def opened(self, number: int, wrap: WrapStore | None, *, write: bool) -> Base:
        """Return the layer open for reading or writing; errors begin with its number."""
        base = self.source
        if isinstance(base, Spec):
            driver = base._driver
            _count_opened()
            try:
                if not write and driver.own_mode().create:
                    error = InvalidArgumentError("Cannot specify an open mode of `create` without `write`")
                    raise prefix(error, f'Error opening "{driver.driver}" driver')
                base = open_base(base, readable=not write, writable=write, wrap=wrap)
            except ChunkwiseError as e:
                raise prefix(e, f"While opening layer {number}") from None
        if not (base.array.writable if write else base.array.readable):
            raise InvalidArgumentError(f"Layer {number}: {'Write' if write else 'Read'} mode not supported")
        return base


class StackLayers:
    """Layers by number, later ones on top; `wrap` returns stores as a transaction sees them."""

    def __init__(self, layers: Sequence[Layer], wrap: WrapStore | None) -> None:
        self.layers = layers
        self._wrap = wrap
        self._templates: Templates = {}
        self._finders: list[FindSource | None] = [None] * len(layers)

    def in_transaction(self, wrap: WrapStore | None) -> StackLayers:
        """Return the layers as a transaction sees them, or as they are outside any if None."""
        layers = [
            layer
            if isinstance(layer.source, Spec)
            else layer._replace(source=layer.source.in_transaction(wrap))
            for layer in self.layers
        ]
        return StackLayers(layers, wrap)

    def layer_sources(self, numbers: Iterable[int]) -> list[LayerSource | None]:
        """Return the sources of some layers; None for those that must be opened."""
        known: dict[int, LayerSource | None] = {NO_LAYER: None}
        fetch = FILES.open_reader()
        sources = []
        for number in numbers:
            if number not in known:
                known[number] = self._finder(number)(fetch)
            sources.append(known[number])
        return sources

    def _finder(self, number: int) -> FindSource:
        """Return the function that finds the source of a layer; in a transaction each layer is opened."""
        find = self._finders[number]
        if find is None:
            source, domain = self.layers[number]
            if self._wrap is not None:
                find = no_source
            elif isinstance(source, Spec):
                find = find_of_spec(source, domain, self._templates)
            else:
                find = find_of_base(source, domain)
            self._finders[number] = find
        return find

    def opened(self, number: int, *, write: bool) -> Base | None:
        """Return a layer open for reading or writing; None for `NO_LAYER`."""
        return None if number == NO_LAYER else self.layers[number].opened(number, self._wrap, write=write)

    def run(self, parts: Iterable[LayerRequest], do: Do, *, pool: Pool, write: bool) -> Future[None]:
        """Open the layers of some parts, and call `do` with each and its parts."""
        groups: dict[int, list[LayerRequest]] = {}
        for part in parts:
            groups.setdefault(part.layer, []).append(part)
        n_workers = self._n_workers(list(groups), pool)
        if any(part.region.indexed for group in groups.values() for part in group) and in_event_loop():
            n_workers = n_workers or pool.n_workers  # wait for index arrays
        if not n_workers:
            futures: list[Future[Any]] = []
            try:
                for number, group in groups.items():
                    base = self.opened(number, write=write)
                    futures += [do(base, part) for part in group]
            except Exception as e:
                futures.append(Future.failed(e))
            return map_future(lambda _: None, gather(futures))

        def open_worker(stop: Stop) -> Callable[[tuple[int, list[LayerRequest]]], None]:
            def work(item: tuple[int, list[LayerRequest]]) -> None:
                if not stop:
                    base = self.opened(item[0], write=write)
                    for part in item[1]:
                        do(base, part).result()

            return work

        return pool.run(
            list(groups.items()),
            open_worker,
            lambda: None,
            n_workers=n_workers,
            writes=EVERYWHERE if write else None,
        )

    def _n_workers(self, numbers: Sequence[int], pool: Pool) -> int:
        """Return how many threads process one layer after the other; 0 if layers divide their own work."""
        # Opening layers takes longer than handing them over: with threads, 4 to 64 sharded layers of 16³ to
        # 64³ elements take 0.4 to 0.95 of the time.  If there are fewer layers than threads, layers divide
        # their own work.
        remote = any(number != NO_LAYER and self.layers[number].is_remote for number in numbers)
        n_workers = DEFAULT_CONCURRENCY if remote else pool.n_workers
        return n_workers if len(numbers) >= max(2, n_workers) else 0


@contextmanager
def naming(layer: int) -> Iterator[None]:
    """Add the layer's number to errors."""
    try:
        yield
    except ChunkwiseError as e:
        raise prefix(e, f"Layer {layer}") from None
