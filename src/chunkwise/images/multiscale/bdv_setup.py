"""A setup of BigDataViewer at all its times, whatever stores them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.images.multiscale.bdv_file import BdvFile
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.joined import joined
from chunkwise.images.multiscale.metadata import Axis

__all__ = ["image_of_setup"]


def image_of_setup(
    number: int,
    views: Mapping[int, str],
    open_view: Callable[[str], MultiscaleImage],
    file: BdvFile,
    times: Sequence[int],
    *,
    name: str,
    where: str,
) -> MultiscaleImage:
    """Return the image of a setup; with a last axis t if there are several times.

    `views` has the path from `where` of each time, and `times` those that there should be.
    """
    parts: dict[int, MultiscaleImage] = {}
    problems = []
    for time in sorted(views):
        try:
            parts[time] = open_view(views[time])
        except (InvalidArgumentError, NotFoundError) as e:
            if time in times and (time, number) not in file.missing:
                problems.append(f"time {time} is missing: {e.message}")
    if not parts:
        raise InvalidArgumentError(f"{where}: there is no view with levels of setup {number}")
    first = next(iter(parts.values()))
    if len(times) == 1 or len({*parts, *times}) == 1:
        return first._seen_from(views[next(iter(parts))], where)
    members = [views[time].partition("/")[0] for time in parts]
    bounds = min(*parts, *times), max(*parts, *times)
    return joined(
        parts, Axis("t", "time"), bounds, location=where, name=name, problems=problems, members=members
    )
