"""An open array at a lower resolution than another one, computed at each read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from chunkwise.core.arrays.base_array import AdapterArray, Base, chunk_shape, open_base
from chunkwise.core.arrays.protocol import FixedArray, OpenArray, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import pool_under
from chunkwise.core.driver.adapters import (
    DownsampleSpec,
    base_view,
    check_factors,
    downsampled_domain,
    downsampled_schema,
    first_elements,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.batch import as_batched
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.downsample import downsample_into, open_reduction
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool
from chunkwise.core.index_space import IndexDomain, IndexTransform, merge_domains, resolve_bounds
from chunkwise.core.index_space.bounds import check_unread
from chunkwise.core.plan.accumulate import open_accumulator
from chunkwise.core.specs.context import ContextSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = ["DownsampleArray", "open_downsample"]

Array = npt.NDArray[Any]


class DownsampleArray(AdapterArray, FixedArray):
    """Cells of another array, each reduced to one element; read-only."""

    __slots__ = (
        "_base",
        "_chunk",
        "_context",
        "_factors",
        "_method",
        "_reduce",
        "pool",
    )

    def __init__(
        self, base: Base, factors: Sequence[int], method: str, pool: Pool, context: ContextSpec | None = None
    ) -> None:
        self._base = base
        self._factors = check_factors(factors, base.transform.input_rank)
        self._method = method
        self._context = context
        self.pool = pool
        self._chunk: list[int] | None = None
        # Cells of one element are unchanged; even the mean keeps -0.0.
        whole = method == "stride" or all(f == 1 for f in factors)
        reduce = None if method == "stride" else open_reduction(method, base.array.dtype)
        self._reduce = None if whole else reduce
        self.readable = base.array.readable
        self.writable = False

    def in_transaction(self, wrap: WrapStore | None) -> DownsampleArray:
        """Return the array as a transaction sees it, or as it is outside any if None."""
        return DownsampleArray(
            self._base.in_transaction(wrap), self._factors, self._method, self.pool, self._context
        )

    @property
    def dtype(self) -> DataType:
        """Type of the elements, which is the base's."""
        return self._base.array.dtype

    @property
    def domain(self) -> IndexDomain:
        """Domain, as far as it is known."""
        return downsampled_domain(self._base.transform.domain, self._factors, self._method)

    def base(self, transform: IndexTransform) -> tuple[OpenArray, IndexTransform]:
        """Return the view of the base for a view of this array."""
        onto = self._base.transform
        view = base_view(transform, self._factors, onto.domain, self._method)
        return self._base.array, onto.compose(view)

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with current implicit bounds; raise if it leads outside the array."""
        base, onto = self._base.array, self._base.transform
        base.bounded(IndexTransform.identity(base.domain))
        out = resolve_bounds(transform, self.domain)
        if 0 not in out.input_shape:
            return out
        if self._reduce is None:
            base.bounded(onto.compose(first_elements(out, self._factors)))
        else:
            check_unread(out, self.domain, [d for d, n in enumerate(self._factors) if n > 1])
        return out

    def read_into(self, transform: IndexTransform, out: Array) -> Future[Array]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""
        if not out.size:
            return Future.ready(out)
        base = self._base.array
        onto = self._base.transform
        if self._reduce is None:
            return base.read_into(onto.compose(first_elements(transform, self._factors)), out)
        if self._chunk is None:
            self._chunk = chunk_shape(self._base)

        read_base = as_batched(base.read_into)

        def read(part: IndexTransform, values: Array) -> None:
            read_base(self._base.part(part), values).result()

        return downsample_into(
            transform,
            out,
            factors=self._factors,
            lower=onto.input_inclusive_min,
            upper=onto.input_exclusive_max,
            chunk=self._chunk,
            dtype=base.numpy_dtype(),
            read=read,
            reduce=self._reduce,
            accumulate=open_accumulator(self._method, base.dtype),
            pool=self.pool,
        )

    def write_from(self, transform: IndexTransform, source: Array) -> WriteFutures:
        """Fail: `source` doesn't determine the elements of the base."""
        return WriteFutures.failed(InvalidArgumentError("Destination does not support writing."))

    def schema(self) -> Schema:
        """The schema of the base at the lower resolution."""
        schema = self._base.array.schema().transformed(self._base.transform)
        return downsampled_schema(schema, self._factors, self._method)

    def spec(self) -> DownsampleSpec:
        """Return a spec that opens this array again."""
        return DownsampleSpec(
            schema=Schema(rank=len(self._factors)),
            context=self._context,
            base=self._base.spec(),
            factors=self._factors,
            method=self._method,
        )

    def view_spec(self, transform: IndexTransform) -> tuple[DownsampleSpec, IndexTransform]:
        """Return the spec, and the transform of a view to it, with its current bounds."""
        return self.spec(), transform

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Count the chunks of the base for a view."""
        array, region = self.base(self.bounded(transform))
        return array.count_stored(region, most)


def open_downsample(
    spec: DownsampleSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> DownsampleArray:
    """Open the array of a bound spec for reading only."""
    if not readable:
        raise InvalidArgumentError("only reading is supported")
    base = open_base(spec.base, readable=True, writable=False, wrap=wrap)
    array = DownsampleArray(base, spec.factors, spec.method, pool_under(spec), spec.context)
    if spec.schema.domain is not None:
        with prefixed("downsampled domain does not match domain in schema"):
            merge_domains(spec.schema.domain, array.domain)
    return array
