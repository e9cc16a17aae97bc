"""``ImagePlan``: an image as the source of a tree copy: its levels, and the groups that make them an image.

Everything is checked when a plan is made, so that an image that can't be copied is refused before anything is
written.  The attributes of groups, by which viewers recognise an image, come after the levels.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chunkwise.copying.array_options import array_options
from chunkwise.copying.copy_job import planned_job
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import CopySource, check_apart
from chunkwise.copying.small_arrays import location_below, small_view
from chunkwise.copying.tree_plan import CopyRoom, TreePlan
from chunkwise.errors import InvalidArgumentError, prefix
from chunkwise.extension import JSON
from chunkwise.extension.trees import FormatName, Location

__all__ = ["ImagePlan", "LevelSource"]


class LevelSource(NamedTuple):
    """An array of the copy."""

    path: str  # from the top of the copy
    name: str  # of the level in the source, for errors
    source: CopySource
    options: Mapping[str, Any]  # in which the copy differs


class ImagePlan(ABC):
    """An image to copy into the group at `destination`; subclasses know the layout."""

    format: FormatName  # of the copy
    beside: list[str]  # names in the source that belong to no level

    def __init__(self, source: Location, destination: Location, options: Mapping[str, Any]) -> None:
        check_apart(source, destination)
        self.location, self.destination = source, destination
        self.options = array_options(options)
        self._specs: dict[str, JSON] = {}

    @abstractmethod
    def levels(self) -> Iterator[LevelSource]:
        """Yield the arrays."""

    @abstractmethod
    def groups(self) -> dict[str, dict[str, JSON]]:
        """Return the attributes of the groups, by path from the top; those above need none."""

    @abstractmethod
    def notes(self) -> list[tuple[str, str]]:
        """Return paths, and notes on losses and other forms there."""

    @abstractmethod
    def check_free(self, how: CopyOptions) -> None:
        """Raise AlreadyExistsError if a file that `finish` writes exists, unless it may be replaced."""

    @abstractmethod
    def finish(self) -> None:
        """Write the files beside the group."""

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy."""
        made, digest = TreePlan(), hashlib.sha256()
        for path, name, source, options in self.levels():
            where = location_below(room.top, path)
            try:
                job = planned_job(source, where, room.format, dict(options), room.how)
            except InvalidArgumentError as e:
                raise prefix(e, f"{self.location.text}: level {name}") from None
            if job.arrays.is_small(room.room):
                made.small.append(small_view(path, job))
            else:
                room.plan_blocks(job)
                made.large[path] = job
            made.notes += [(path, note) for note in job.target_spec.notes]
            digest.update(source.digest.encode())
            spec = dict(job.target_spec.spec)
            if self._specs.setdefault(name, spec) != spec:  # stacks of a level are all alike
                self._specs[path] = spec
        made.digest = digest.hexdigest()
        made.groups = self.groups()
        others = "is left out: it is no level of the image; copy it by itself"
        made.notes += [*self.notes(), *((name, others) for name in self.beside)]
        return made

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return the description of the copy for its journal."""
        return {"levels": self._specs, "source metadata": plan.digest}
