"""``ArrayJob``: an array to copy, with its stages; ``CopyJob``: one that becomes an array afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, ClassVar, TypeAlias

from chunkwise.copying.array_options import for_array, for_format, option_of
from chunkwise.copying.array_template import FINGERPRINT, ArrayTemplate
from chunkwise.copying.codec_option import parse_compressor
from chunkwise.copying.comparison import with_fingerprint
from chunkwise.copying.copy_arrays import (
    CopyArrays,
    LostBlockError,
    Pass,
    StepResult,
    copy_arrays,
    delete_intermediates,
)
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import is_session
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_source import CopySource
from chunkwise.copying.fence import Fence
from chunkwise.copying.narrowing import MisfitError, Narrowing, narrowing
from chunkwise.copying.new_array import Target, target_spec
from chunkwise.copying.tasks import Stage
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.core.api.open import open as open_json
from chunkwise.core.api.open import open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.open_chunked import create_document
from chunkwise.core.base.cached import json_key, put_bounded
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.dtypes.conversion import Convert, converter
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.spec import Spec
from chunkwise.core.trees.attributes import change_attributes, first_attributes
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node, node_of, require_node
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    OptionError,
    UnsupportedError,
    prefix,
)

__all__ = ["ArrayJob", "CopyJob", "Done", "planned_job"]

Done: TypeAlias = Callable[[int, int, int, StepResult], None]
"""Is called with the number of a step, the range of finished tasks, and their results."""

_MASK = (1 << 64) - 1
_ASSUMED = OpenMode(open=True, assume_metadata=True)
_MOST_KEPT = 1 << 14  # bytes of the JSON of a spec


class ArrayJob:
    """An array whose elements are copied into another one."""

    what: ClassVar[str] = "copy"  # name on a dashboard

    plan: CopyPlan
    steps: Sequence[Pass]

    def __init__(self, arrays: CopyArrays) -> None:
        self.arrays, self.narrowing, self.nbytes = arrays, arrays.narrowing, arrays.nbytes

    def use_plan(self, plan: CopyPlan, *, summed: bool, intermediate: str) -> None:
        """Take a plan; with `summed`, a single pass computes fingerprints too.

        `intermediate` is the name of the array between two.
        """
        if plan.passes[0].domain.shape != self.arrays.target.shape:
            raise InvalidArgumentError(
                f"the plan is for an array of shape {list(plan.passes[0].domain.shape)}, "
                f"not {list(self.arrays.target.shape)}"
            )
        self.plan = plan
        self.steps = self.arrays.steps(plan, summed=summed, name=intermediate)

    def share(self, nbytes: int) -> int:
        """Return the share of the whole that a block of one of several passes counts for."""
        return nbytes // max(1, len(self.steps))

    def copy_stages(
        self,
        runner: TaskRunner,
        fence: Fence,
        pending: Callable[[int], Sequence[tuple[int, int]]],
        done: Done,
        **how: Any,
    ) -> Iterator[Stage]:
        """Yield the passes, each of the tasks that are `pending` when it begins."""
        if self.narrowing is not None:
            self.narrowing.n_changed = 0
        yield from self._stages(self.what, self.steps, runner, fence, pending, done, how)

    def verify_stages(
        self, runner: TaskRunner, fence: Fence | None, advance: Callable[[int], object], **how: Any
    ) -> Iterator[Stage]:
        """Yield the stages that read source and copy again; raise DataCorruptionError if they differ.

        The error names the first element that differs; after two passes it says only that some differ.
        """
        # A narrowing counts once.
        steps = self.arrays.verify_steps(self.plan, copy(self.narrowing))
        sums = [0] * len(steps)

        def done(at: int, start: int, stop: int, result: StepResult) -> None:
            sums[at] = (sums[at] + result.fingerprint) & _MASK
            advance(self.share(result.nbytes))

        fence = None if fence is None else fence.reading()
        yield from self._stages(
            "compare", steps, runner, fence, lambda at: [(0, steps[at].blocks.n_blocks)], done, how
        )
        if len(set(sums)) > 1:
            raise DataCorruptionError(
                f"the copy differs from the source: fingerprints are {sums[1]:016x} and {sums[0]:016x}"
            )

    def _stages(
        self,
        what: str,
        steps: Sequence[Pass],
        runner: TaskRunner,
        fence: Fence | None,
        pending: Callable[[int], Sequence[tuple[int, int]]],
        done: Done,
        how: dict[str, Any],
    ) -> Iterator[Stage]:
        work = Work(what, steps, fence)

        def count(at: int, start: int, stop: int, result: StepResult) -> None:
            counted = steps[at].narrowing
            if counted is not None:
                counted.add_changed(result.n_changed)
            done(at, start, stop, result)

        for at, step in enumerate(steps):
            cost = prod(step.blocks.shape) * step.itemsize
            yield runner.stage(work, at, pending(at), partial(count, at), kind=what, cost=cost, **how)

    @staticmethod
    def check_passes(sums: Sequence[int]) -> None:
        """Raise LostBlockError unless the second pass has read what the first has written."""
        if len(set(sums)) > 1:
            raise LostBlockError(
                "the intermediate array was not read as it was written: fingerprints are "
                f"{sums[0]:016x} and {sums[1]:016x}"
            )

    def check_source(self) -> None:
        """Raise FailedPreconditionError if the source is known to have changed since the beginning."""

    def publish(self, fingerprint: int | None = None, look: Callable[[], object] = lambda: None) -> None:
        """Complete the copy when all elements are there, and stay there: `look` raises if others may have
        deleted some."""
        if self.plan.intermediate is not None:
            delete_intermediates(self.arrays.location)

    def is_there(self) -> bool:
        """Return True if the copy was made before."""
        return False


class CopyJob(ArrayJob):
    """An array, and the target that becomes its copy."""

    def __init__(
        self,
        source: TensorStore,
        destination: Location,
        format: str,
        target: Target,
        narrowing: Narrowing | None,
        *,
        node: Node | None,  # of the source; None if that is made of other arrays
        how: CopyOptions,
    ) -> None:
        self.source, self.location, self.format, self.node = source, destination, format, node
        self.target_spec = target
        kvstore = destination.kvstore()
        if not how.sync:  # one that is bound already would not look at the context
            kept = {kind: value for kind, value in kvstore.resources.items() if kind != "file_io_sync"}
            kvstore = replace(kvstore, resources=kept)
        self._kvstore = kvstore
        self._context = Context({} if how.sync else {"file_io_sync": False})
        spec = self._spec(target)
        assumed = Spec._of(spec._driver.with_open_mode(_ASSUMED), spec._transform)
        # Nothing here waits, so no thread is needed.
        self.target = open_spec(assumed, None, None, self._context, None).result()
        super().__init__(copy_arrays(source, self.target, destination, narrowing, is_stored=node is not None))

    def _spec(self, target: Target) -> Spec:
        spec = _parsed(target.spec)
        return Spec._of(spec._driver.with_kvstore(self._kvstore), spec._transform)

    def check_source(self) -> None:
        """Raise FailedPreconditionError if the metadata of the source has changed since the beginning."""
        if self.node is None or self.node.found is None:  # or it comes from consolidated metadata
            return
        location, key = self.node.location, self.node.key
        found = location.store.read(location.path + key)
        if found.value is None or node_of(location, key, found).document != self.node.document:
            raise FailedPreconditionError(
                f"the source has changed while it was copied: {location.describe(key)} is another, or gone"
            )

    def publish(self, fingerprint: int | None = None, look: Callable[[], object] = lambda: None) -> None:
        """Make the copy an array, perhaps with the fingerprint of its elements as an attribute.

        Consolidated metadata is not updated.
        """
        location, wanted = self.location, self.target_spec
        super().publish()  # first: an N5 array can't be made where a directory is
        if fingerprint is not None and is_session(location.store):  # it is an array there already
            kept = {FINGERPRINT: f"{fingerprint:016x}"}
            change_attributes(require_node(location), lambda own: {**own, **kept})
            return
        if fingerprint is not None:
            wanted = with_fingerprint(wanted, self.format, fingerprint)
        bound = self._spec(wanted)._driver.bind(self._context)
        assert isinstance(bound, ChunkedSpec), "it has metadata"
        with first_attributes(location, self.format, wanted.attributes):
            create_document(bound, look)

    def is_there(self) -> bool:
        """Return True if there is an array with the metadata of the copy."""
        try:
            open_json({**self.target_spec.spec, "kvstore": self._kvstore, "open": True}).result()
        except ValueError:
            return False
        return True


_specs: dict[bytes, Spec] = {}


def _parsed(json: dict[str, Any]) -> Spec:
    """Return the spec of an array that has no kvstore yet; callers must not change it."""
    # Arrays of a tree are mostly alike, and each is looked up several times.
    key = json_key(json, _MOST_KEPT)
    found = None if key is None else _specs.get(key)
    if found is None:
        found = Spec(json)
        if key is not None:
            put_bounded(_specs, key, found)
    return found


def planned_job(
    source: CopySource,
    destination: Location,
    format: str,
    options: Mapping[str, Any],
    how: CopyOptions,
    *,
    extent: tuple[float, float] | None = None,  # of the source, which else "scale" measures
) -> CopyJob:
    """Return how an array is copied to a format; raise if that can't hold it.

    It is an OptionError if the array could be copied without an option.
    """
    options = for_array(for_format(options, format), source.template)

    def planned(given: Mapping[str, Any], extent: tuple[float, float] | None) -> CopyJob:
        dtype = given.get("dtype")
        convert = None if dtype is None else narrowing(source.store, dtype, how.cast, extent)
        target = target_spec(_with_options(source.template, format, given, convert), format, list(given))
        return CopyJob(source.store, destination, format, target, convert, node=source.node, how=how)

    try:
        return planned(options, extent)
    except (InvalidArgumentError, UnsupportedError) as e:
        if isinstance(e, MisfitError):  # the values of this array
            raise
        wrong = [option_of(name) for name in _wrong_options(options, lambda some: planned(some, (0.0, 1.0)))]
        if not wrong:
            raise
        named = e.message.startswith(tuple(f"{name}: " for name in wrong))
        raise OptionError(e.message if named else f"{', '.join(wrong)}: {e.message}") from None


def _wrong_options(options: Mapping[str, Any], planned: Callable[[Mapping[str, Any]], CopyJob]) -> list[str]:
    """Return options without any of which, or else without all of which, an array could be copied."""

    def is_planned(names: Collection[str]) -> bool:
        try:
            planned({name: options[name] for name in names})
        except ChunkwiseError:
            return False
        return True

    one = [name for name in options if is_planned(options.keys() - {name})]
    return one or (list(options) if is_planned(()) else [])


def _with_options(
    template: ArrayTemplate, format: str, options: Mapping[str, Any], convert: Convert | None
) -> ArrayTemplate:
    if "dtype" in options and template.fill_value is not None and "fill_value" not in options:
        convert = convert or converter(template.dtype, options["dtype"])
        try:
            options = {**options, "fill_value": convert(template.fill_value)}
        except MisfitError as e:
            raise prefix(e, "The fill value can't be kept, give another one") from None
    usual = tree_format(format).codecs.new_compressor
    if usual and template.codec is None:  # arrays read by reference, and pictures
        template = replace(template, codec=parse_compressor(usual))
    return template.replaced(options)
