"""Small arrays of a tree: a task copies one as a whole, by a read, a write, and the metadata.

A worker is sent everything: the metadata of the source, which has been read already, or a view of it, and the
metadata of the copy.
So an array costs a request for each of its chunks and one for the metadata of the copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, Self
from zlib import compress, decompress

from chunkwise.copying.copy_arrays import StepResult
from chunkwise.copying.copy_job import CopyJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import is_session
from chunkwise.copying.copy_plan import COPIES
from chunkwise.copying.executors import Room
from chunkwise.copying.fence import Fence, Guard, Tasks
from chunkwise.copying.narrowing import Narrowing
from chunkwise.copying.new_array import Target, open_node
from chunkwise.copying.tasks import Stage
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.copying.worker_view import check_array_visible, check_node_visible
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.cached import cached_property
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.tree import Tree
from chunkwise.errors import prefix

__all__ = ["SmallArray", "SmallArrays", "location_below", "n_together", "small_array", "small_view"]

_MOST_TOGETHER = 32


class SmallArray(NamedTuple):
    """An array that is to be copied as a whole."""

    path: str  # from the top of the copy
    format: FormatName  # of the source
    key: str  # of its document
    narrowing: Narrowing | None
    nbytes: int
    text: bytes  # compressed JSON: the document, and the new array; there may be very many
    view: tuple[TensorStore, Node | None] | None = None  # the source, if it isn't a node of the tree

    def node(self, top: Location) -> Node:
        """Return the node of the source."""
        return Node(
            location_below(top, self.path),
            self.format,
            "array",
            self.key,
            json.loads(self.json())["document"],
        )

    def target(self) -> Target:
        """Return the description of the new array."""
        found = json.loads(self.json())
        return Target(found["spec"], found["attributes"], ())

    def json(self) -> str:
        """Return the text."""
        return decompress(self.text).decode()


def small_array(path: str, node: Node, job: CopyJob) -> SmallArray:
    """Return the description of a job's array."""
    assert node.format is not None, "it is an array"
    text = _text(job, document=dict(node.document))
    return SmallArray(path, node.format, node.key, job.narrowing, job.nbytes, text)


def small_view(path: str, job: CopyJob) -> SmallArray:
    """Return the description of a job's view."""
    view = job.source, None if job.node is None else replace(job.node, found=None)
    format = tree_format(job.format).name
    return SmallArray(path, format, "", job.narrowing, job.nbytes, _text(job), view)


def _text(job: CopyJob, **more: JSON) -> bytes:
    target = job.target_spec
    text = {**more, "spec": target.spec, "attributes": target.attributes}
    return compress(json.dumps(text, separators=(",", ":")).encode(), 1)


@dataclass
class SmallArrays:
    """The step that copies small arrays, each of which is a task; results are in the order of the tasks."""

    source: Location  # of the top of the source
    target: Location
    format: str  # of the copies
    arrays: Sequence[SmallArray]
    how: CopyOptions
    first: int = 0  # number of the first of them
    n_together: int = 1  # tasks of a worker at the same time, where one of the stores is a request away

    @property
    def is_remote(self) -> bool:
        """True if one of the stores is."""
        return self.source.store_spec.is_remote or self.target.store_spec.is_remote

    def part(self, start: int, stop: int) -> Self:
        """Return the step with some of its arrays only."""
        return replace(self, arrays=self.arrays[start - self.first : stop - self.first], first=start)

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless the first array is the same here as at the start."""
        first = self.arrays[0]
        if first.view is not None:
            check_array_visible(first.view[0], "the source")
        else:
            check_node_visible(first.node(self.source), "the source")

    def run(self, tasks: Iterable[int]) -> list[StepResult]:
        """Copy arrays; return the result of each."""
        if not isinstance(tasks, Tasks):
            return [self._copy(self.arrays[number - self.first], None) for number in tasks]

        def copy_each(own: Tasks) -> list[StepResult]:
            return [self._copy(self.arrays[number - self.first], own.guard) for number in own]

        if self.n_together == 1:
            return copy_each(tasks)
        each = tasks.apart()
        store = self.source.store if is_slow(self.source.store) else self.target.store
        groups = (each[i : i + self.n_together] for i in range(0, len(each), self.n_together))
        return [result for group in groups for own in map_requests(store, copy_each, group) for result in own]

    def stage(
        self,
        runner: TaskRunner,
        fence: Fence,
        pending: Iterable[tuple[int, int]],
        done: Callable[[int, int, list[StepResult]], None],
    ) -> Stage:
        """Return the stage of those that are pending."""
        return runner.stage(
            Work("copy-arrays", [self], fence),
            0,
            pending,
            done,
            kind="small",
            n_together=self.n_together,
            name=lambda number: f"the copy of {self.arrays[number].path}",
        )

    def job(self, array: SmallArray) -> CopyJob:
        """Return the copy of an array."""
        if array.view is not None:
            store, node = array.view
        else:
            node = array.node(self.source)
            store = open_node(self._tree, array.path.split("/"), node)
        return CopyJob(
            store,
            location_below(self.target, array.path),
            self.format,
            array.target(),
            array.narrowing,
            node=node,
            how=self.how,
        )

    @cached_property
    def _tree(self) -> Tree:
        return Tree(root=self.source, format=self.arrays[0].format)

    def _copy(self, array: SmallArray, guard: Guard | None) -> StepResult:
        try:
            job = self.job(array)
            job.use_plan(job.arrays.plan_whole(), summed=self.how.keep_fingerprint, intermediate="")
            total = StepResult(0, 0, 0)
            session = is_session(self.target.store)
            if session:
                job.publish()
            for step in job.steps:
                blocks = range(step.blocks.n_blocks)
                total = step.run(blocks if guard is None else guard.inside(blocks))
            if self.how.verify:
                for step in job.arrays.verify_steps(job.plan, copy(job.narrowing)):
                    step.run(range(step.blocks.n_blocks))
            if guard is not None:
                guard.look()
            if not session or self.how.keep_fingerprint:
                kept = total.fingerprint if self.how.keep_fingerprint else None
                job.publish(kept, (lambda: None) if guard is None else guard.check)
        except Exception as e:
            prefix(e, f"Error copying {array.path or self.source.text}")
            raise
        return total

    def __reduce__(self) -> tuple[object, ...]:
        return SmallArrays, (
            self.source,
            self.target,
            self.format,
            self.arrays,
            self.how,
            self.first,
            self.n_together,
        )


def n_together(arrays: Sequence[SmallArray], room: Room) -> int:
    """Return how many arrays a worker has the memory for at the same time."""
    largest = max((array.nbytes for array in arrays), default=0)
    return max(1, min(_MOST_TOGETHER, room.memory // max(1, room.n_at_once * COPIES * largest)))


def location_below(top: Location, path: str) -> Location:
    """Return the location of a node, given its path from the top, which may be empty."""
    return top.child(path) if path else top
