"""The journal of a copy of an image, which lies in its group until all levels are complete.

Each level is an array with its own journal.  This one says that the image is unfinished, also between two
levels, and has the options of the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from chunkwise.copying.destination import Destination, begun_at, unfinished
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.planned_copy import Progress
from chunkwise.copying.sessions import journal_location
from chunkwise.errors import AlreadyExistsError, ChunkwiseError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, find_node

__all__ = ["beating", "begin_image", "check_nothing_begun", "saved"]


def check_nothing_begun(where: Location) -> None:
    """Raise AlreadyExistsError if an image, perhaps an unfinished one, or anything else is there."""
    if begun_at(where) is not None:
        raise unfinished(where)
    if find_node(where) is not None:
        raise AlreadyExistsError(f"{where.text} is there already; --overwrite replaces it")


def begin_image(
    to: Destination, source: Location, format: str, levels: Mapping[str, JSON], n_arrays: int
) -> Journal:
    """Return the journal of a copy, new or resumed; `levels` are the specs of the new arrays."""
    place = journal_location(to.place)
    task: dict[str, JSON] = {"source": source.journal_json(), "format": format, "levels": dict(levels)}
    journal = Journal(place, task, n_arrays, command="chunkwise cp -r --resume")
    if read_journal(place) is None:
        journal.begin()
    else:
        journal.resume()
    return journal


@contextmanager
def saved(journal: Journal) -> Iterator[None]:
    """Note in the journal that nobody is at work any more, if there is an error."""
    try:
        yield
    except BaseException:  # an interrupt too
        with suppress(ChunkwiseError):
            journal.save()
        raise


def beating(journal: Journal, progress: Progress) -> Progress:
    """Return `progress`, wrapped so that the journal also shows that somebody is at work."""

    def told(path: str, nbytes: int) -> None:
        progress(path, nbytes)
        journal.beat()

    tell: Callable[[str, int], None] = told
    return tell
