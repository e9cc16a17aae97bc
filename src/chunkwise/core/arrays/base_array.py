"""The base of an open array that adapts another one, and the arrays that a virtual array is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from chunkwise.core.arrays.protocol import OpenArray, Transactional, WrapStore
from chunkwise.core.base.catalogue import arrays
from chunkwise.core.engine.derived_futures import map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.index_space.output_map import single_map
from chunkwise.core.kvstore.protocol import offers
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import ChunkwiseError, OutOfBoundsError, UnsupportedError, as_value_error, prefixed

__all__ = ["AdapterArray", "Base", "array_sources", "base_of", "chunk_shape", "in_transaction", "open_base"]


class Base:
    """An open array and the transform of a view to it."""

    __slots__ = ("_domain", "_transform", "array")

    def __init__(self, array: OpenArray, transform: IndexTransform) -> None:
        self.array = array
        self._transform = transform
        self._domain = array.domain

    @property
    def transform(self) -> IndexTransform:
        """The transform, with implicit bounds as currently known."""
        domain = self.array.domain
        if domain is not self._domain and domain != self._domain:
            # Reading notices an array that has shrunk below explicit bounds.
            with suppress(ChunkwiseError):
                self._transform = IndexTransform.identity(domain).compose(self._transform)
            self._domain = domain
        return self._transform

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return the transform of a request to `array`; raise if it leads outside."""
        try:
            onto = self.transform.compose(transform)
        except OutOfBoundsError as e:
            raise as_value_error(e) from None
        return self.array.bounded(onto)

    def part(self, request: IndexTransform) -> IndexTransform:
        """Return the transform to `array` of a request inside the domain of the view."""
        # Like `bounded`, without checking bounds that are known to hold.
        output = []
        for m in self.transform._output:
            if m._array is not None:
                return self.bounded(request)
            if m._dim is None:
                output.append(m)
                continue
            inner = request._output[m._dim]
            if inner._dim is None:
                return self.bounded(request)
            output.append(
                single_map(m._offset + m._stride * inner._offset, m._stride * inner._stride, inner._dim)
            )
        return self.array.bounded(IndexTransform._make(request._domain, tuple(output)))

    def in_transaction(self, wrap: WrapStore | None) -> Base:
        """Return the same over the stores that `wrap` returns."""
        return Base(in_transaction(self.array, wrap), self._transform)

    def spec(self) -> Spec:
        """Return the spec of the view."""
        view_spec = getattr(self.array, "view_spec", None)
        if view_spec is not None:
            return Spec._of(*view_spec(self.transform))
        try:
            resolved = IndexTransform.identity(self.array.domain).compose(self._transform)
        except OutOfBoundsError as e:
            raise as_value_error(e) from None
        return Spec._of(self.array.spec(), resolved)


class AdapterArray:
    """The part of an open array over a base that is the same whatever it makes of the elements."""

    __slots__ = ()

    _base: Base

    @property
    def in_memory(self) -> bool:
        """True if reading the base uses no store."""
        return bool(getattr(self._base.array, "in_memory", False))

    @property
    @abstractmethod
    def domain(self) -> IndexDomain:
        """Domain of the view, as far as it is known."""

    def resolve(self) -> Future[IndexDomain]:
        """Return the current domain, from the storage of the base."""
        return map_future(lambda _: self.domain, self._base.array.resolve())


def open_base(spec: Spec, *, readable: bool, writable: bool, wrap: WrapStore | None = None) -> Base:
    """Open the array of a bound spec; errors begin with ``Error opening "n5" driver``."""
    driver = spec._driver
    with prefixed(f'Error opening "{driver.driver}" driver', ChunkwiseError):
        options = {} if wrap is None else {"wrap": wrap}
        array: OpenArray = arrays.find(driver.driver)(driver, readable=readable, writable=writable, **options)
        transform = IndexTransform.identity(array.domain)
        if spec.transform is not None:
            transform = transform.compose(spec.transform)
    return Base(array, transform)


def in_transaction(array: OpenArray, wrap: WrapStore | None) -> OpenArray:
    """Return `array` over the stores that `wrap` returns; raise if it can't take part in transactions."""
    if offers(array, Transactional):
        return array.in_transaction(wrap)
    if wrap is not None:
        raise UnsupportedError(f'"{array.spec().driver}" driver does not support transactions')
    return array


def chunk_shape(base: Base) -> list[int]:
    """Return the shape of a view's read chunks, with 1 in dimensions without chunks."""
    layout = base.array.schema().transformed(base.transform).chunk_layout
    shape: Any = layout.read_chunk.shape or (None,) * base.transform.input_rank
    return [n or 1 for n in shape]


def base_of(array: Any, transform: IndexTransform) -> tuple[Any, IndexTransform]:
    """Return the array that casts and the like adapt, and the request that a view is to it."""
    while not hasattr(array, "stored") and hasattr(array, "base"):
        array, transform = array.base(transform)
    return array, transform


def array_sources(
    array: Any, transform: IndexTransform, *, holes: bool = False
) -> Iterator[tuple[OpenArray, IndexTransform]]:
    """Yield the arrays with values of their own below a view, each with the request that the view is to it.

    The layers of a stack are opened, which reads their metadata; nothing else is read.  Elements in no layer
    are an error unless `holes` are allowed.
    """
    array, transform = base_of(array, transform)
    if not hasattr(array, "requests"):
        yield array, transform
        return
    for layer, request in array.requests(array.bounded(transform), holes=holes):
        yield from array_sources(layer, request, holes=holes)
