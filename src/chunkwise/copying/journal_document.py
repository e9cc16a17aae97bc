"""Documents of journals, checked when read: sets of tasks, and the option by which two tasks differ."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypedDict

from chunkwise.core.base.binding import JSON, MISSING, dump, load_json
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import ChunkwiseError, FailedPreconditionError

__all__ = [
    "INFORMATIVE",
    "JournalDocument",
    "Ranges",
    "difference",
    "other_members",
    "owner_text",
    "parse_journal",
    "read_journal",
    "told_options",
]

# -- documents ----------------------------------------------------------------------------------------

# Any program may have written to the place of a journal.

_MISSING = object()
_FINGERPRINT = re.compile("[0-9a-f]{16}", re.ASCII)


class JournalDocument(TypedDict):
    """The content of a journal."""

    task: dict[str, JSON]  # the work and its options
    tasks: list[int]  # how many each pass has
    done: list[list[list[int]]]  # of each pass, ranges of tasks such as [0, 8]
    fingerprints: list[str]  # of each pass, in hexadecimal digits
    owner: str | None  # who is at work


def read_journal(location: Location) -> JournalDocument | None:
    """Return the content of the journal at `location`, or None."""
    value = read_bounded(location.store, location.path + JOURNAL).value
    return None if value is None else parse_journal(value, location.describe(JOURNAL))


def parse_journal(value: Buffer, where: str) -> JournalDocument:
    """Return the content of a journal.

    Raises
    ------
    FailedPreconditionError
        If it isn't a journal; the error names the file, the line and the member.
    """
    text = bytes(value)
    try:
        document: JournalDocument = load_json(text)
    except ChunkwiseError as e:
        raise _is_none(where, 1 + text.count(b"\n") if not text.strip() else None, e.message) from None
    if not isinstance(document, dict):
        raise _is_none(where, 1, "expected an object")
    n_tasks: list[int] = []
    for name, check, expected in _MEMBERS:
        if not check(document.get(name, _MISSING), n_tasks):
            raise _is_none(where, _line_of(text, name), f'"{name}": expected {expected}')
        if name == "tasks":
            n_tasks = document["tasks"]
    return document


def owner_text(owner: object) -> str:
    """Return the owner of a journal as text."""
    host, pid, _ = (*str(owner).split(":"), "?", "?")[:3]
    return f"process {pid} on {host}"


def _is_none(where: str, line: int | None, why: str) -> FailedPreconditionError:
    at = "" if line is None else f"line {line}: "
    return FailedPreconditionError(
        f"{where} is not the journal of a copy: {at}{why}; it is damaged, or another's"
    )


def _line_of(text: bytes, name: str) -> int:
    """Return the line of a member of the outermost object, or the last line if it is missing."""
    lines = text.splitlines() or [b""]
    start = f'"{name}":'.encode()
    found = (number for number, line in enumerate(lines, 1) if line.removeprefix(b"  ").startswith(start))
    return next(found, len(lines))


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_range(value: object, n: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(_is_number, value))
        and value[0] < value[1] <= n
    )


def _are_ranges(value: object, n_tasks: list[int]) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(n_tasks)
        and all(
            isinstance(ranges, list) and all(_is_range(range_, n) for range_ in ranges)
            for ranges, n in zip(value, n_tasks, strict=True)
        )
    )


def _are_fingerprints(value: object, n_tasks: list[int]) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(n_tasks)
        and all(isinstance(text, str) and _FINGERPRINT.fullmatch(text) for text in value)
    )


_MEMBERS: tuple[tuple[str, Callable[[object, list[int]], bool], str], ...] = (
    ("task", lambda value, _: isinstance(value, dict), "an object"),
    (
        "tasks",
        lambda value, _: isinstance(value, list) and all(map(_is_number, value)),
        "a list of the number of tasks of each pass",
    ),
    ("done", _are_ranges, "a list for each pass, of ranges of its tasks such as [0, 8]"),
    ("fingerprints", _are_fingerprints, "16 hexadecimal digits for each pass"),
    ("owner", lambda value, _: value is None or isinstance(value, str), "null or text"),
)


class Ranges:
    """A set of integers from 0 up that come in runs: a billion tasks take some hundred numbers.

    Parameters
    ----------
    ranges : iterable of (int, int)
        First number of each run, and the one after its last.
    """

    def __init__(self, ranges: Iterable[Iterable[int]] = ()) -> None:
        self._edges: list[int] = []  # a start, a stop, a start ..., ascending
        for start, stop in ranges:
            self.add(start, stop)

    def __contains__(self, number: int) -> bool:
        return bisect_right(self._edges, number) % 2 == 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._edges[::2], self._edges[1::2], strict=True)))

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return sum(stop - start for start, stop in self)

    def add(self, start: int, stop: int) -> None:
        """Add the numbers from `start` up to, but without, `stop`."""
        if start >= stop:
            return
        first, last = bisect_left(self._edges, start), bisect_right(self._edges, stop)
        inside = [start] * (first % 2 == 0) + [stop] * (last % 2 == 0)
        self._edges[first:last] = inside

    def missing(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the runs between `start` and `stop` that are missing."""
        for low, high in self:
            if high <= start:
                continue
            if low >= stop:
                break
            if start < low:
                yield start, low
            start = high
        if start < stop:
            yield start, stop


# -- differences --------------------------------------------------------------------------------------

_OPTIONS = {
    **dict.fromkeys(("codec", "codecs", "compressor", "filters", "compression", "encoding"), "--codec"),
    **dict.fromkeys(("chunk_grid", "chunks", "blockSize", "chunk_size"), "--chunk or --shard"),
    **dict.fromkeys(("data_type", "dtype", "dataType"), "--dtype"),
    "fill_value": "--fill-value",
    **dict.fromkeys(("driver", "format"), "--format"),
    "shards": "--shard",
    "checksum": "--checksum",
    "dimension_names": "--dimension-names",
    "dimension_units": "--units",
    "cast": "--cast",
    "fingerprint": "--keep-fingerprint",
    "method": "--method",
    "convention": "--convention",
    "steps": "--levels or --factors",
    "axes": "--axes or --units",
    "part": "--region",
    "number of parts": "--part",
}
INFORMATIVE = "given options"
"""Member of a task that isn't part of it, but has the options behind the rest."""

_LONGEST = 80  # characters of a value


def difference(begun: Mapping[str, JSON], now: Mapping[str, JSON]) -> str:
    """Return the differences between two tasks as text, which is empty if there are none.

    >>> difference({"method": "mean"}, {"method": "max"})
    'its method is another one (was "mean", now "max": --method)'
    """
    for name in [*now, *(name for name in begun if name in _OPTIONS and name not in now)]:
        then, here = begun.get(name, MISSING), now.get(name, MISSING)
        if then == here or name == INFORMATIVE:
            continue
        members = list(other_members(then, here))
        if not members and name in _OPTIONS:
            members = [f"was {_text(then)}, now {_text(here)}: {_OPTIONS[name]}"]
        # Digests say nothing to people; options do, if they differ.
        members = members or list(other_members(begun.get(INFORMATIVE), now.get(INFORMATIVE)))
        how = "; ".join(dict.fromkeys(members))
        is_other = "are others" if name in ("levels", "passes", "places") else "is another one"
        return f"its {name} {is_other}{how and f' ({how})'}"
    return ""


def told_options(fields: Mapping[str, object]) -> dict[str, JSON]:
    """Return options as JSON."""

    def told(value: object) -> JSON:
        if type(value) is tuple:
            return [told(one) for one in value]
        if isinstance(value, dict):
            return {name: told(one) for name, one in value.items()}
        return value if isinstance(value, list | int | float | str | None) else str(value)

    return {name: told(value) for name, value in fields.items()}


def other_members(begun: JSON, now: JSON) -> Iterator[str]:
    """Yield a text for each member that differs, with the option of `cp` behind it.

    >>> list(other_members({"metadata": {"chunks": [2]}}, {"metadata": {"chunks": [3]}}))
    ['chunks was [2], now [3]: --chunk or --shard']
    """
    if isinstance(begun, list) and isinstance(now, list) and len(begun) == len(now):
        for then, here in zip(begun, now, strict=True):
            yield from other_members(then, here)
    if not (isinstance(begun, dict) and isinstance(now, dict)):
        return
    for name in sorted({*begun, *now}):
        then, here = begun.get(name, MISSING), now.get(name, MISSING)
        if then == here or name == "kvstore":
            continue
        if isinstance(then, dict) and isinstance(here, dict) and name not in _OPTIONS:
            yield from other_members(then, here)
        else:
            option = f": {_OPTIONS[name]}" if name in _OPTIONS else ""
            yield f"{name} was {_text(then)}, now {_text(here)}{option}"


def _text(value: JSON) -> str:
    if value is MISSING:
        return "not given"
    text = dump(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
