"""All doors asked about all things by all names; ``python agreement.py`` prints where they contradict."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from doors import DOORS, MUST_REFUSE, PYTHON, REFUSED, TAKES, ask
from packed_things import PACKED_THINGS
from things import THINGS, Thing, names_of
from web import served

__all__ = ["ALL_THINGS", "Finding", "cells_of", "contradictions"]

ALL_THINGS = {**THINGS, **PACKED_THINGS}


class Finding(NamedTuple):
    """A contradiction."""

    thing: str
    door: str
    name: str
    what: str


UNLISTED = "does not support listing"
"""What is said of a group on a web server, whose members are unknown."""

Cells = dict[tuple[str, str], Any]  # what a door says, by door and name


def cells_of(
    thing: Thing, at: Path, doors: Iterable[str] = DOORS, names: Iterable[str] | None = None
) -> Cells:
    """Return what each door says of a thing by each of its names."""
    out: Cells = {}
    with served(at) as url:
        given = names_of(thing, at, url)
        for name in (name for name in given if names is None or name in names):
            for door in doors if isinstance(given[name], str) else set(doors) & PYTHON:
                out[door, name] = ask(door, given[name], at / f"out{len(list(at.glob('out*')))}")
    return out


def contradictions(title: str, thing: Thing, cells: Cells) -> Iterator[Finding]:
    """Yield where doors refuse what their kind takes, or the name of a thing decides."""
    for (door, name), found in cells.items():
        is_refused = isinstance(found, tuple) and found[:1] == (REFUSED,)
        why = cells.get(("open_multiscale", name), found) if door == "napari" else found  # which says nothing
        if name == "web" and is_refused and UNLISTED in str(why):
            continue
        if door in TAKES[thing.kind] and is_refused:
            yield Finding(title, door, name, f"refused: {found[1][:160]}")
        elif door in MUST_REFUSE.get(thing.kind, ()) and not is_refused:
            yield Finding(title, door, name, f"taken: {found}")
        elif not is_refused and found != (first := cells[door, "path"]) and first[:1] != (REFUSED,):
            yield Finding(title, door, name, f"{found} unlike {first} by path")
    info, tree = (cells.get((door, "path"), (REFUSED,)) for door in ("info", "tree"))
    if REFUSED not in (info[0], tree[0]) and info[0] != tree[0][1]:
        yield Finding(title, "info", "path", f"{info[0]} unlike {tree[0][1]} by tree")
    labels = {
        door: found[-1] if door != "napari" else found[0][-1] == "labels"
        for door in ("open_multiscale", "downsample_pyramid", "pyramid", "serve", "napari")
        if (found := cells.get((door, "path"), (REFUSED,)))[0] not in (REFUSED, "collection")
    }
    if len(set(labels.values())) > 1:
        yield Finding(title, "open_multiscale", "path", f"labels: {labels}")
    by_path = {door: found for (door, name), found in cells.items() if name == "path"}
    values = {
        door: by_path[door]
        for door in ("open", "open_array", "read", "slice", "stack", "copy", "cp")
        if door in by_path and by_path[door][0] != REFUSED
    }
    for door, found in values.items():
        if found != next(iter(values.values())):
            yield Finding(title, door, "path", f"{found} unlike {next(iter(values.values()))}")


def main() -> None:
    """Print the contradictions of the things that are named, or of all."""
    wanted, n_cells, n_found = sys.argv[1:] or list(ALL_THINGS), 0, 0
    for title in wanted:
        with tempfile.TemporaryDirectory() as place:
            thing = ALL_THINGS[title](Path(place))
            cells = cells_of(thing, Path(place))
            n_cells += len(cells)
            for finding in contradictions(title, thing, cells):
                n_found += 1
                print(*(str(part).replace(place, "DIR") for part in finding), sep=" | ", flush=True)
    print(f"{n_cells} cells, {n_found} contradictions")


if __name__ == "__main__":
    main()
