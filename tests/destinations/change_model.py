"""Random changes of what is there: moves, migrations, archives, stacks, dask arrays into arrays, members.

As in `request_model`: what was asked is there and nothing else has changed, or there is a clear error, and
every byte is as before.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random

import numpy as np
from destinations.request_model import (
    DOCUMENTS,
    FORMATS,
    STATES,
    VALUES,
    CommandError,
    Request,
    _command,
    arrange,
    documents,
    prepare,
    read,
    snapshot,
    stale,
    table,
)

import chunkwise as cw
from chunkwise.errors import ChunkwiseError, FailedPreconditionError


@dataclass(frozen=True)
class Change:
    """A change, as chosen at random."""

    action: str
    source: str  # format of what is moved, copied or stacked
    kind: str  # of it
    around: str  # format of the group around the place, or "none"
    consolidated: bool
    name: str
    state: str
    there: str
    overwrite: bool

    @classmethod
    def of(cls, random: Random) -> Change:
        """Return a random change, those that should succeed more often."""
        action = random.choice(list(ACTIONS))
        around = random.choice(("none", *FORMATS))
        if ACTIONS[action].inside and around == "none":
            around = random.choice(FORMATS)
        source = around if around in FORMATS and random.random() < 0.6 else random.choice(FORMATS)
        name = random.choice(ACTIONS[action].names)
        usual = random.choice(ACTIONS[action].usual)
        return cls(
            action=action,
            source=source,
            kind=random.choice(("array", "group")),
            around=around,
            consolidated=around.startswith("zarr") and random.random() < 0.5,
            name=name,
            state=usual if random.random() < 0.6 else random.choice(list(STATES)),
            there=source if random.random() < 0.5 else random.choice(FORMATS),
            overwrite=random.random() < 0.5,
        )

    def __str__(self) -> str:
        return ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))

    def request(self) -> Request:
        """Return what `arrange` makes."""
        return Request(
            "",
            self.overwrite,
            self.source,
            self.around,
            self.consolidated,
            self.name,
            self.state,
            self.there,
            "no",
            "",
        )


class _Scene:
    """What a change finds."""

    def __init__(self, change: Change, prepared: Path, top: Path) -> None:
        self.change, self.prepared, self.top = change, prepared, top
        self.place = arrange(change.request(), prepared, top)
        self.around = top / "g"
        self.is_moved_within = change.around == change.source
        self.moved = (self.around if self.is_moved_within else top / "elsewhere2") / "moved"
        if change.action in ("mv", "Group.move"):
            self.moved.parent.mkdir(parents=True, exist_ok=True)
            kind = self.prepared / "there" / change.source / change.kind
            shutil.copytree(kind, self.moved)
        if change.consolidated:
            with suppress(FailedPreconditionError):  # there is an unfinished copy
                cw.open_group(self.around, "r+").consolidate()
        self.before = snapshot(top)

    @property
    def source(self) -> Path:
        """The group with the array ``a``."""
        return self.prepared / "source" / self.change.source

    def unchanged(self, but: Callable[[str], bool]) -> Iterator[str]:
        """Yield what has changed though it should not."""
        after = snapshot(self.top)
        above = {
            str(path.relative_to(self.top)) for path in self.place.parents if path.is_relative_to(self.top)
        }
        for name, value in self.before.items():
            is_document = str(Path(name).parent) in above and Path(name).name in DOCUMENTS
            if not but(name) and not is_document and after.get(name) != value:
                yield f"{name} has changed"

    def consolidated(self) -> Iterator[str]:
        """Yield what is stale in the group around."""
        if self.change.consolidated:
            yield from stale(self.around, self.change.around)


@dataclass(frozen=True)
class Action:
    """How a change is made, what it may meet, and what must come of it."""

    run: Callable[[_Scene], object]
    judge: Callable[[_Scene], Iterator[str]]
    right: Callable[[Change], bool | None]  # None: perhaps
    usual: tuple[str, ...]
    names: tuple[str, ...] = ("o", "o", "sub/o", "o.zarr")
    inside: bool = False  # only in a group
    errors: tuple[type[BaseException], ...] = (ChunkwiseError,)


# -- moves ---------------------------------------------------------------------------------------------


def _mv(scene: _Scene) -> None:
    _command("mv", scene.moved, scene.place)


def _move(scene: _Scene) -> None:
    group = cw.open_group(scene.around, "r+")
    group.move("moved", str(scene.place.relative_to(scene.around)))


def _may_move(change: Change) -> bool | None:
    if change.around not in ("none", change.source) or (
        change.action == "Group.move" and change.around == "none"
    ):
        return False
    if change.state == "nothing":
        return True
    return None if change.state == "empty" else False


def _moved(scene: _Scene) -> Iterator[str]:
    change = scene.change
    if scene.moved.exists():
        yield "it is still there"
    if documents(scene.place) != {(change.source, change.kind)}:
        yield f"found {documents(scene.place)}"
        return
    array = scene.place if change.kind == "array" else scene.place / "a"
    if not np.array_equal(read(array, change.source), VALUES + 1):
        yield "other values"
    yield from scene.unchanged(lambda name: (scene.top / name).is_relative_to(scene.moved))
    yield from scene.consolidated()
    if change.around == change.source and str(scene.place.relative_to(scene.around)) not in cw.open_group(
        scene.around
    ):
        yield "it is not in the group"


# -- migration -----------------------------------------------------------------------------------------


def _migrate(scene: _Scene) -> None:
    _command("migrate", scene.place, "--apply", *(["--keep-old"] if scene.change.overwrite else []))


def _migrate_by_python(scene: _Scene) -> None:
    cw.migrate(scene.place, apply=True, keep_old=scene.change.overwrite)


def _may_migrate(change: Change) -> bool | None:
    if change.state in ("array", "linked array", "group"):
        if change.there == "zarr2":
            return None if change.around not in ("none", "zarr3") or change.consolidated else True
        return None if change.state == "group" and change.action == "migrate" else False
    return None if change.state in ("nodes", "incomplete", "directory", "empty") else False


def _migrated(scene: _Scene) -> Iterator[str]:
    change = scene.change
    if change.there == "zarr2" and change.state in ("nodes", "incomplete"):
        return  # what is below the directory is migrated
    if change.there != "zarr2" or change.state not in ("array", "linked array", "group"):
        yield from scene.unchanged(lambda _: False)  # "there is no node of Zarr v1 or v2"
        return
    kind = "group" if change.state == "group" else "array"
    if ("zarr3", kind) not in documents(scene.place):
        yield f"found {documents(scene.place)}"
        return
    if not change.overwrite and ("zarr2", kind) in documents(scene.place):
        yield "the old document is there"
    array = scene.place / "a" if kind == "group" else scene.place
    if not np.array_equal(read(array, "zarr3"), VALUES + 1):
        yield "other values"
    own = (".zarray", ".zattrs", ".zgroup", ".zmetadata")
    yield from scene.unchanged(lambda name: Path(name).name in own)
    yield from scene.consolidated()


# -- files ---------------------------------------------------------------------------------------------


def _zip(scene: _Scene) -> None:
    _command(
        "zip", scene.source, scene.place, "--quiet", *(["--overwrite"] if scene.change.overwrite else [])
    )


def _may_write_file(change: Change) -> bool | None:
    if change.state == "nothing":
        return True if change.around != "none" else None  # the directory must exist
    return (
        change.overwrite
        if change.state == "file"
        else None
        if change.state == "empty" or change.state.startswith("inside")
        else False
    )


def _zipped(scene: _Scene) -> Iterator[str]:
    with zipfile.ZipFile(scene.place) as archive:
        names = set(archive.namelist())
    stored = {str(p.relative_to(scene.source)) for p in scene.source.rglob("*") if p.is_file()}
    if names != stored:
        yield f"the archive has {sorted(names ^ stored)}"
    if not np.array_equal(cw.read(f"{scene.place}|zip:a/"), VALUES):
        yield "other values"
    yield from scene.unchanged(lambda name: scene.top / name == scene.place)


def _stack(scene: _Scene) -> None:
    layers = [scene.source / "a", scene.source / "a"]
    flags = ["--overwrite"] if scene.change.overwrite else []
    _command("stack", scene.place, *layers, "--concat", "0", *flags)


def _stacked(scene: _Scene) -> Iterator[str]:
    found = cw.open(json.loads(scene.place.read_text())).result().read().result()
    if not np.array_equal(found, np.concatenate([VALUES, VALUES])):
        yield "other values"
    yield from scene.unchanged(lambda name: scene.top / name == scene.place)


# -- dask arrays into arrays ---------------------------------------------------------------------------


def _store(scene: _Scene) -> None:
    import dask.array

    values = VALUES[:4] if scene.change.kind == "group" else VALUES
    blocks = dask.array.from_array(values, chunks=(4, 3))
    target = cw.open(scene.place, open=True, read=True, write=True).result()
    cw.store(blocks, target, scheduler="synchronous" if scene.change.overwrite else "threads")


def _may_store(change: Change) -> bool | None:
    return change.state in ("array", "linked array") and change.kind == "array"


def _stored(scene: _Scene) -> Iterator[str]:
    if not np.array_equal(read(scene.place, scene.change.there), VALUES):
        yield "other values"
    own = "elsewhere/" if scene.change.state == "linked array" else str(scene.place.relative_to(scene.top))
    yield from scene.unchanged(
        lambda name: name.startswith(own) and Path(name).name not in (*DOCUMENTS, ".zarray")
    )


# -- members of groups ---------------------------------------------------------------------------------


def _member(scene: _Scene) -> None:
    group = cw.open_group(scene.around, "r+")
    group.create_array(_name(scene), VALUES, overwrite=scene.change.overwrite)


def _copied_member(scene: _Scene) -> None:
    source = (
        cw.open_array(scene.source / "a") if scene.change.kind == "array" else cw.open_group(scene.source)
    )
    cw.open_group(scene.around, "r+").copy(source, _name(scene))


def _required_member(scene: _Scene) -> None:
    cw.open_group(scene.around, "r+").require_group(_name(scene))


def _z5py_dataset(scene: _Scene) -> None:
    import chunkwise.z5py

    file = chunkwise.z5py.File(str(scene.around), "a", use_zarr_format=scene.change.around != "n5")
    if scene.change.kind == "group":
        file.create_group(_name(scene))
    else:
        file.create_dataset(_name(scene), data=VALUES, chunks=(3, 8))


def _dataset(scene: _Scene) -> None:
    import xarray

    from chunkwise.xarray import write_dataset

    name = "a"
    dataset = xarray.Dataset({name: (("y", "x"), VALUES)})
    write_dataset(dataset, scene.place, mode="a")


# -- conversions of NWB files --------------------------------------------------------------------------


def _nwb_file(prepared: Path) -> Path:
    """Return an NWB file in HDF5, which is made the first time."""
    path = prepared / "session.nwb"
    if not path.exists():
        from datetime import UTC, datetime

        from pynwb import NWBHDF5IO, NWBFile, TimeSeries

        session = NWBFile("of a test", "1", datetime(2020, 1, 1, tzinfo=UTC))
        session.add_acquisition(TimeSeries("ts", data=VALUES, unit="V", rate=1.0))
        with NWBHDF5IO(str(path), "w") as io:
            io.write(session)
    return path


def _nwb(scene: _Scene) -> None:
    flags = ["--overwrite"] if scene.change.overwrite else []
    _command("nwb", "convert", _nwb_file(scene.prepared), scene.place, "--quiet", *flags)


def _zarr_io(scene: _Scene) -> None:
    """Write a store; a change of a group is forced, if it overwrites."""
    from hdmf.build import DatasetBuilder, GroupBuilder

    from chunkwise.hdmf import ZarrIO

    mode = "w" if scene.change.overwrite else "w-"
    with ZarrIO(scene.place, mode, force_overwrite=scene.change.kind == "group") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", VALUES)]))


def _may_convert(change: Change) -> bool | None:
    is_forced = change.action == "ZarrIO" and change.kind == "group"
    how = (", forced" if is_forced else ", replacing") if change.overwrite else ""
    if table()[STATES[change.state]][f"new HDMF store{how}"] == "error":
        return False
    return None if change.name.endswith(".zarr") and change.around == "n5" else True


def _converted(scene: _Scene) -> Iterator[str]:
    found = documents(scene.place)
    if len(found) != 1:
        yield f"found {found}"
        return
    ((format, _),) = found
    if scene.change.around not in ("none", format):
        yield f"it has the format {format}"
    name = "a" if scene.change.action == "ZarrIO" else "acquisition/ts/data"
    values = read(scene.place / name, format)
    if not any(np.array_equal(values, each) for each in (VALUES, VALUES.T)):
        yield "other values"
    place = str(scene.place.relative_to(scene.top))
    yield from scene.unchanged(lambda name: name.startswith((place, "elsewhere")))
    yield from scene.consolidated()
    if scene.change.around != "none" and _name(scene) not in cw.open_group(scene.around):
        yield "it is not in the group"


def _name(scene: _Scene) -> str:
    return str(scene.place.relative_to(scene.around))


def _may_create(change: Change) -> bool | None:
    if change.action == "z5py" and (change.around == "zarr3" or change.state == "empty"):
        return None
    is_group = change.action in ("Group.require_group", "write_dataset a") or (
        change.kind == "group" and change.action in ("Group.copy", "z5py")
    )
    if change.action == "Group.copy" and is_group and change.state == "nodes":
        return None  # by their format
    if change.name.endswith(".zarr") and change.around == "n5":
        return None
    if change.state in ("nothing", "empty"):
        return True
    if change.state == "file" or change.state.startswith("inside"):
        return False
    if change.state == "container" and change.around == "n5":
        return None  # it becomes an array
    if change.action in ("Group.require_group", "write_dataset a") and change.state in (
        "group",
        "container",
        "nodes",
    ):
        return None
    if change.action == "Group.create_array" and change.overwrite:
        return None
    return None if is_group and change.around == "n5" else False


def _created(scene: _Scene) -> Iterator[str]:
    change = scene.change
    kind = change.kind
    if change.action == "Group.create_array":
        kind = "array"
    if change.action in ("Group.require_group", "write_dataset a"):
        kind = "group"
    format = change.around
    if change.action in ("Group.require_group", "write_dataset a") and change.state in (
        "group",
        "container",
        "nodes",
    ):
        formats = {found for found, _ in documents(scene.place)}
        format = next(iter(formats)) if formats else "n5"
    found = documents(scene.place)
    if found != {(format, kind)} and not (format == "n5" and kind == "group" and not found):
        yield f"expected {kind} of {format}, but found {found}"
        return
    has_values = kind == "array" or change.action in ("Group.copy", "write_dataset a")
    if has_values:
        at = scene.place if kind == "array" else scene.place / "a"
        values = read(at, format)
        if not any(np.array_equal(values, each) for each in (VALUES, VALUES.T)):
            yield f"other values: {values.tolist()}"
    place = str(scene.place.relative_to(scene.top))
    linked = "elsewhere" if change.state == "linked array" else place
    yield from scene.unchanged(lambda name: name.startswith((place, linked)))
    yield from scene.consolidated()
    if change.around == format and _name(scene) not in cw.open_group(scene.around):
        yield "it is not in the group"


COMMAND = (CommandError,)
NEW = ("nothing", "nothing", "empty")
ACTIONS = {
    "mv": Action(_mv, _moved, _may_move, NEW, errors=COMMAND),
    "Group.move": Action(_move, _moved, _may_move, NEW, inside=True),
    "migrate": Action(_migrate, _migrated, _may_migrate, ("array", "group", "linked array"), errors=COMMAND),
    "migrate by Python": Action(
        _migrate_by_python, _migrated, _may_migrate, ("array", "group", "linked array")
    ),
    "zip": Action(
        _zip, _zipped, _may_write_file, ("nothing", "file"), ("o.zip", "o.zarr.zip"), errors=COMMAND
    ),
    "stack": Action(_stack, _stacked, _may_write_file, ("nothing", "file"), ("o.json",), errors=COMMAND),
    "store": Action(_store, _stored, _may_store, ("array", "array", "linked array")),
    "Group.create_array": Action(_member, _created, _may_create, NEW, inside=True),
    "Group.copy": Action(_copied_member, _created, _may_create, NEW, inside=True),
    "Group.require_group": Action(_required_member, _created, _may_create, (*NEW, "group"), inside=True),
    "z5py": Action(
        _z5py_dataset,
        _created,
        _may_create,
        NEW,
        inside=True,
        errors=(ChunkwiseError, RuntimeError, OSError, KeyError),
    ),
    "nwb convert": Action(_nwb, _converted, _may_convert, NEW, errors=COMMAND),
    "ZarrIO": Action(_zarr_io, _converted, _may_convert, NEW),
    "write_dataset a": Action(_dataset, _created, _may_create, (*NEW, "group"), inside=True),
}


def judge(change: Change, prepared: Path, top: Path) -> str:
    """Make a change in a new directory, and return what is wrong; empty if nothing is."""
    action, scene = ACTIONS[change.action], _Scene(change, prepared, top)
    right = action.right(change)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            action.run(scene)
    except action.errors as e:
        after = snapshot(top)
        if after != scene.before:
            return (
                f"an error, but changed: {sorted(dict(set(after.items()) ^ set(scene.before.items())))}: {e}"
            )
        return f"refused: {type(e).__name__}: {e}" if right else ""
    except Exception as e:
        return f"a raw error: {e!r}"
    if right is False:
        return "expected an error"
    try:
        return "; ".join(action.judge(scene))
    except Exception as e:
        return f"can't be read: {e!r}"


def findings(seed: object, n: int, top: Path) -> dict[str, list[str]]:
    """Make changes, and return what is wrong with them, by what is wrong."""
    prepared = top / "prepared"
    prepare(prepared)
    out: dict[str, list[str]] = {}
    for number in range(n):
        change = Change.of(Random(f"{seed} {number}"))
        at = top / str(number)
        wrong = judge(change, prepared, at)
        shutil.rmtree(at)
        if wrong:
            kind = re.sub(re.escape(str(top)) + r"/\d+|0x[0-9a-f]+", "…", wrong)
            out.setdefault(f"{change.action}: {kind[:300]}", []).append(f"{seed} {number}: {change}")
    return out
