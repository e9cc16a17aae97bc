"""Random requests of writers, and what must come of them; other readers judge.

A request is a writer, a source, a name, what is around the place and at it, how the format is said, and
whether to overwrite.  What must come of it follows from the tables of docs/hierarchies.md alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field, fields
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tensorstore
import zarr

import chunkwise as cw
import chunkwise.z5py
from chunkwise.cli.main import main
from chunkwise.core.kvstore.places.staging import UNFINISHED
from chunkwise.errors import ChunkwiseError

VALUES = np.arange(48, dtype="uint16").reshape(6, 8)
PAGE = Path(__file__).parents[2] / "docs" / "hierarchies.md"
DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}
SUFFIXES = {".zarr": ("zarr3", "zarr2"), ".zarr3": ("zarr3",), ".zarr2": ("zarr2",), ".n5": ("n5",)}
FILES = (".h5", ".tif", ".json", ".zip", ".npy", ".nc")
FORMATS = tuple(DRIVERS)
VOLUME = "neuroglancer_precomputed"

DOCUMENTS = ("zarr.json", ".zmetadata", "attributes.json", ".zattrs", ".zgroup")

STATES = {
    "nothing": "nothing, or an empty directory",
    "empty": "nothing, or an empty directory",
    "files": "files that belong to no array or group",
    "directory": "files that belong to no array or group",
    "array": "array",
    "linked array": "array",
    "group": "group",
    "container": "empty N5 container",
    "unfinished": "unfinished copy",
    "incomplete": "unfinished HDMF store",
    "nodes": "directory without a document that holds arrays or groups",
    "volume": "precomputed volume",
    "database": "OCDBT database",
    "file": "file",
    "inside": "inside an array",
    "inside unfinished": "inside an unfinished copy or HDMF store",
    "inside incomplete": "inside an unfinished copy or HDMF store",
}


def table() -> dict[str, dict[str, str]]:
    """Return the table of states of the page, by state and column."""
    text = PAGE.read_text(encoding="utf-8").partition("<!-- what each writer does; a test reads it -->")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.strip().partition("\n\n")[0].splitlines()
    ]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


@dataclass(frozen=True)
class Request:
    """A request, as chosen at random."""

    writer: str
    overwrite: bool
    source: str  # its format
    around: str  # format of the group around the place, or "none"
    consolidated: bool
    name: str
    state: str
    there: str  # format of what is there
    said: str  # how the format is said
    format: str  # which is said

    @classmethod
    def of(cls, random: Random) -> Request:
        """Return a random request, the usual ones more often."""
        around = random.choice(("none", "none", *FORMATS))
        name = random.choice(("o", "o", "o.zarr", "o.zarr3", "o.zarr2", "o.n5", "p.n5/s0", "sub/o", "o.N5"))
        if random.random() < 0.08:
            name = "o" + random.choice(FILES)
        return cls(
            writer=random.choice(sorted(WRITERS)),
            overwrite=random.random() < 0.5,
            source=random.choice(FORMATS),
            around=around,
            consolidated=around.startswith("zarr") and random.random() < 0.4,
            name=name,
            state=random.choice(("nothing", "nothing", *STATES)),
            there=random.choice(FORMATS),
            said=random.choice(("no", "no", "option", "driver", "url", "spec", "both")),
            format=random.choice(FORMATS),
        )

    def __str__(self) -> str:
        return ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self))


@dataclass(frozen=True)
class Writer:
    """A writer of arrays or groups."""

    run: Callable[[Any, Path, dict[str, Any], bool], object]  # place, source, format option, overwriting
    kind: str
    columns: tuple[str, str]  # of the table: without and with overwriting
    takes_source: bool = False
    takes_specs: bool = True  # as places; otherwise paths and URLs only
    takes_option: bool = True
    default: str = "zarr3"
    values: str | None = ""  # path of an array with VALUES in what is written; None without one
    errors: tuple[type[BaseException], ...] = (ChunkwiseError, TypeError)
    merges: bool = False  # overwriting leaves the group as it is
    given: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # the option for each format, if not format=


def _dask(place: Any, _: Path, __: dict[str, Any], overwrite: bool) -> None:
    import dask.array

    values = dask.array.from_array(VALUES, chunks=(3, 8))
    cw.from_dask(values, place, delete_existing=overwrite, scheduler="synchronous")


def _create_of_dask(place: Any, _: Path, option: dict[str, Any], overwrite: bool) -> None:
    import dask.array

    cw.create_array(place, dask.array.from_array(VALUES, chunks=(3, 8)), overwrite=overwrite, **option)


def _dataset(place: Any, _: Path, option: dict[str, Any], overwrite: bool) -> None:
    import xarray

    from chunkwise.xarray import write_dataset

    dataset = xarray.Dataset({"a": (("y", "x"), VALUES)})
    write_dataset(dataset, place, mode="w" if overwrite else "w-", **option)


def _pyramid(place: Any, source: Path, option: dict[str, Any], overwrite: bool) -> None:
    cw.downsample_pyramid(
        source / "a", place, axes=["y", "x"], levels=1, overwrite=overwrite, **option
    ).result()


def _z5py(place: Any, _: Path, option: dict[str, Any], overwrite: bool) -> None:
    chunkwise.z5py.File(place, "w" if overwrite else "w-", **option)


class CommandError(Exception):
    """A command that failed with a message."""


def _command(*arguments: object) -> None:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main([str(a) for a in arguments if a is not None])
        except SystemExit as e:
            status = int(e.code or 0)
    if status not in (0, 3):
        if status not in (1, 2) or "Traceback" in err.getvalue():
            raise AssertionError(f"exit status {status}: {err.getvalue()}")
        raise CommandError(err.getvalue())


def _options(option: dict[str, Any], overwrite: bool) -> list[str]:
    flags = ["--overwrite"] if overwrite else []
    return [*flags, *(text for name, value in option.items() for text in (f"--{name}", str(value)))]


def _cp(place: Any, source: Path, option: dict[str, Any], overwrite: bool) -> None:
    _command("cp", source / "a", place, "--quiet", *_options(option, overwrite))


def _cp_r(place: Any, source: Path, option: dict[str, Any], overwrite: bool) -> None:
    _command("cp", "-r", source, place, "--quiet", *_options(option, overwrite))


def _cli_pyramid(place: Any, source: Path, option: dict[str, Any], overwrite: bool) -> None:
    options = _options(option, overwrite)
    _command("pyramid", source / "a", place, "--axes", "y,x", "--levels", 1, "--quiet", *options)


def _create(place: Any, _: Path, option: dict[str, Any], __: bool) -> None:
    _command("create", place, "--shape", "6,8", "--dtype", "uint16", *_options(option, False))


ARRAY = ("new array", "new array, overwriting")
GROUP = ("new group", "new group, overwriting")
ADDED = ("group, added to", "group, added to")
CONVENTIONS = {
    "zarr3": {"convention": "ome-ngff-0.5"},
    "zarr2": {"convention": "ome-ngff-0.4"},
    "n5": {"convention": "n5-viewer"},
}
COMMAND = (CommandError,)

WRITERS: dict[str, Writer] = {
    "create_array": Writer(
        lambda place, _, option, over: cw.create_array(place, VALUES, overwrite=over, **option),
        "array",
        ARRAY,
    ),
    "create_array of dask": Writer(_create_of_dask, "array", ARRAY),
    "create_array of an array": Writer(
        lambda place, source, option, over: cw.create_array(
            place, cw.open_array(source / "a"), overwrite=over, **option
        ),
        "array",
        ARRAY,
        takes_source=False,
    ),
    "create_group": Writer(
        lambda place, _, option, over: cw.create_group(place, overwrite=over, **option),
        "group",
        GROUP,
        values=None,
    ),
    "open_group a": Writer(
        lambda place, _, option, __: cw.open_group(place, "a", **option), "group", ADDED, values=None
    ),
    "copy": Writer(
        lambda place, source, option, over: cw.copy(source / "a", place, overwrite=over, **option),
        "array",
        ARRAY,
        takes_source=True,
    ),
    "copy_tree": Writer(
        lambda place, source, option, over: cw.copy_tree(source, place, overwrite=over, **option),
        "group",
        GROUP,
        takes_source=True,
        values="a",
    ),
    "from_dask": Writer(_dask, "array", ARRAY, takes_option=False),
    "write_dataset": Writer(_dataset, "group", GROUP, values="a"),
    "open_group w": Writer(
        lambda place, _, option, over: cw.open_group(place, "w" if over else "w-", **option),
        "group",
        GROUP,
        values=None,
    ),
    "downsample_pyramid": Writer(
        _pyramid, "group", ADDED, takes_source=True, values="*0", merges=True, given=CONVENTIONS
    ),
    "z5py.File": Writer(
        _z5py,
        "group",
        GROUP,
        values=None,
        default="n5",
        errors=(ChunkwiseError, TypeError, OSError, RuntimeError),
        given={
            "zarr3": {"use_zarr_format": True, "zarr_format": 3},
            "zarr2": {"use_zarr_format": True, "zarr_format": 2},
            "n5": {"use_zarr_format": False},
        },
    ),
    "cp": Writer(_cp, "array", ARRAY, takes_source=True, takes_specs=False, errors=COMMAND),
    "cp -r": Writer(_cp_r, "group", GROUP, takes_source=True, takes_specs=False, values="a", errors=COMMAND),
    "pyramid": Writer(
        _cli_pyramid,
        "group",
        ADDED,
        takes_source=True,
        takes_specs=False,
        values="*0",
        errors=COMMAND,
        merges=True,
        given=CONVENTIONS,
    ),
    "create": Writer(_create, "array", (ARRAY[0], ARRAY[0]), values=None, takes_specs=False, errors=COMMAND),
}


# -- what is made beforehand ----------------------------------------------------------------------------


def prepare(top: Path) -> None:
    """Make everything that requests find, once."""
    for format in FORMATS:
        source = cw.create_group(top / "source" / format, format=format)
        source.create_array("a", VALUES, chunks=(3, 8))
        group = cw.create_group(top / "around" / format, format=format)
        group.create_array("old", VALUES)
        cw.create_group(top / "there" / format / "group", format=format).create_array("a", VALUES + 1)
        cw.create_array(top / "there" / format / "array", VALUES + 1, format=format)
        cw.create_array(top / "there" / format / "nodes" / "x", VALUES + 1, format=format)
        cw.create_array(top / "there" / format / "inside", VALUES + 1, format=format)
        with suppress(KeyboardInterrupt):
            cw.copy(top / "source" / format / "a", top / "there" / format / "unfinished", progress=_stop)
        assert (top / "there" / format / "unfinished").is_dir()
        shutil.copytree(top / "there" / format / "nodes", top / "there" / format / "incomplete")
        (top / "there" / format / "incomplete" / UNFINISHED).touch()
        cw.copy(top / "source" / format / "a", top / "there" / format / "volume", format=VOLUME)
        cw.create_array(f"file://{top}/there/{format}/database|ocdbt:a/", VALUES, format="zarr3")
    cw.create_group(top / "there" / "container", format="n5")
    for format in ("zarr3", "zarr2"):
        shutil.copytree(top / "around" / format, top / "around" / f"{format} consolidated")
        cw.open_group(top / "around" / f"{format} consolidated", "r+").consolidate()


def _stop(_: int) -> None:
    raise KeyboardInterrupt


def arrange(request: Request, prepared: Path, top: Path) -> Path:
    """Make what a request finds, and return its place."""
    top.mkdir(parents=True)
    if request.around != "none":
        suffix = " consolidated" if request.consolidated else ""
        shutil.copytree(prepared / "around" / f"{request.around}{suffix}", top / "g")
    place = top / "g" / request.name
    there = prepared / "there" / request.there
    if request.state == "nothing":
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    if request.state in ("empty", "files", "directory"):
        place.mkdir()
        if request.state == "files":
            (place / "notes.txt").write_text("mine")
        elif request.state == "directory":
            (place / "plots").mkdir()
            (place / "plots" / "p.txt").write_text("mine")
    elif request.state == "file":
        place.write_text("mine")
    elif request.state == "linked array":
        shutil.copytree(there / "array", top / "elsewhere")
        place.symlink_to(top / "elsewhere", target_is_directory=True)
    elif request.state == "container":
        shutil.copytree(prepared / "there" / "container", place)
    elif request.state.startswith("inside"):
        shutil.copytree(there / request.state.split()[-1], place)
        return place / "o"
    else:
        shutil.copytree(there / request.state, place)
    return place


def snapshot(top: Path) -> dict[str, bytes]:
    """Return all files, directories and links, with what is in them."""
    return dict(_entries(top, top))


def _entries(top: Path, at: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(at.iterdir()):
        name = str(path.relative_to(top))
        if path.is_symlink():
            yield name, b"-> " + os.fsencode(os.readlink(path))
        elif path.is_dir():
            yield name, b"/"
            yield from _entries(top, path)
        elif not path.name.endswith(".__lock"):
            yield name, path.read_bytes()


# -- what must come of it -------------------------------------------------------------------------------


def expected(request: Request) -> tuple[str, str | None]:
    """Return what the table says, and the format, or None if there is an error."""
    writer = WRITERS[request.writer]
    column = writer.columns[request.overwrite]
    says = table()[STATES[request.state]][column]
    if writer.merges and request.overwrite and request.state in ("files", "directory"):
        says = "written beside them"
    if writer.merges and request.overwrite and request.state == "unfinished":
        says = "used"
    if request.writer == "open_group a" and request.said == "no" and request.state in ("group", "container"):
        return "used", "n5" if request.state == "container" else request.there
    format = _format(request, writer)
    if format is None:
        return "error", None
    in_n5 = request.around == "n5" or _has_suffix(request.name, ".n5")
    if in_n5 and format == "n5" and request.state in ("files", "directory") and writer.kind == "group":
        says = "written"  # in an N5 container it is a group
    if says.startswith("written if they have"):
        says = "written" if format == request.there else "error"
    if says == "written in N5, else error":
        says = "written" if format == "n5" else "error"
    if says == "used" and request.state in ("group", "container"):
        own = "n5" if request.state == "container" else request.there
        asked = writer.merges or request.said != "no"
        says = "used" if not asked or own == format else "error"
        format = own if not asked else format
    if request.state == "directory" and (in_n5 if format != "n5" else writer.kind == "array"):
        says = "error"  # its directories are, or would be, groups of N5
    if request.state == "nodes" and in_n5 and format == request.there == "n5" and writer.kind == "group":
        says = "written"
    return says, format


def _format(request: Request, writer: Writer) -> str | None:
    said = ways(request, writer)
    if len(set(said.values())) > 1:
        return None
    if said:
        suffix = Path(request.name).suffix if writer.default == "n5" and "option" in said else ""
        is_other = suffix in (".n5", ".zarr") and (suffix == ".n5") != (said.get("option") == "n5")
        return None if is_other else next(iter(said.values()))  # z5py believes the name
    names = [*(["o"] if request.state.startswith("inside") else []), *request.name.split("/")[::-1]]
    if any(names[0].endswith(suffix) for suffix in FILES):
        return None
    suffix = next((Path(name).suffix.lower() for name in names if Path(name).suffix.lower() in SUFFIXES), "")
    fitting = SUFFIXES.get(suffix, ())
    if request.around != "none":
        return request.around if not fitting or request.around in fitting else None
    source = request.source if writer.takes_source else None
    if request.writer == "write_dataset" and request.overwrite and request.state in ("group", "container"):
        source = "n5" if request.state == "container" else request.there
    if writer.default == "n5":
        source = "zarr2" if Path(request.name).suffix == ".zarr" else "n5"
    if not fitting:
        return source or writer.default
    return source if source in fitting else fitting[0]


def _has_suffix(name: str, suffix: str) -> bool:
    return any(part.endswith(suffix) for part in name.split("/"))


def ways(request: Request, writer: Writer) -> dict[str, str]:
    """Return the formats that a request says, by the way."""
    others = FORMATS[(FORMATS.index(request.format) + 1) % 3]
    said = {
        "no": {},
        "option": {"option": request.format},
        "driver": {"driver": request.format},
        "url": {"url": request.format},
        "spec": {"spec": request.format},
        "both": {"option": others, "url": request.format},
    }[request.said]
    if not writer.takes_option:
        said = {way: format for way, format in said.items() if way != "option"}
    if not writer.takes_specs:
        said = {"url" if way in ("driver", "spec") else way: format for way, format in said.items()}
    return said


def run(request: Request, place: Path, prepared: Path) -> None:
    """Make the request."""
    writer = WRITERS[request.writer]
    option: dict[str, Any] = {}
    named: Any = str(place)
    for way, format in ways(request, writer).items():
        if way == "option":
            option = writer.given.get(format, {"format": format})
        elif way == "url":
            named = f"{place}|{'zarr2' if format == 'zarr2' else format}:"
        else:
            named = {"driver": DRIVERS[format], "kvstore": {"driver": "file", "path": f"{place}/"}}
            named = cw.Spec(named) if way == "spec" else named
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer.run(named, prepared / "source" / request.source, option, request.overwrite)


def judge(request: Request, prepared: Path, top: Path) -> str:
    """Make a request in a new directory, and return what is wrong; empty if nothing is."""
    writer = WRITERS[request.writer]
    place = arrange(request, prepared, top)
    before = snapshot(top)
    says, format = expected(request)
    try:
        run(request, place, prepared)
    except writer.errors as e:
        if snapshot(top) != before:
            changed = dict(set(snapshot(top).items()) ^ set(before.items()))
            return f"an error, but changed: {sorted(changed)}: {e}"
        return "" if says == "error" else f"expected {says} in {format}, but received {type(e).__name__}: {e}"
    except Exception as e:
        return f"a raw error: {e!r}"
    if says == "error":
        return "expected an error, but it was written"
    assert format is not None
    try:
        return "; ".join(_wrong(request, writer, place, top, before, format))
    except Exception as e:
        return f"can't be read: {e!r}"


def _wrong(
    request: Request, writer: Writer, place: Path, top: Path, before: dict[str, bytes], format: str
) -> Iterator[str]:
    found = documents(place)
    if found != {(format, writer.kind)} and not (format == "n5" and writer.kind == "group" and not found):
        yield f"expected {writer.kind} of {format}, but found {sorted(found)}"
        return
    yield from _wrong_values(writer, place, format)
    after = snapshot(top)
    for name, value in before.items():
        inside = (top / name).is_relative_to(place) or name.startswith("elsewhere/")
        is_document = Path(name).name in DOCUMENTS and place.is_relative_to((top / name).parent)
        if value == b"mine" and request.state != "file" and after.get(name) != value:
            yield f"{name} is no more"
        elif not inside and not is_document and after.get(name) != value:
            yield f"{name} has changed"
    if request.around == format and expected(request)[0] != "used":
        yield from _wrong_listing(request, place, top / "g", format)
        if request.consolidated and request.state != "nodes":  # nobody told it of those
            yield from stale(top / "g", format)


def stale(group: Path, format: str) -> Iterator[str]:
    """Yield what consolidated metadata of a group says otherwise than the documents below it."""
    if format == "zarr3":
        found = json.loads((group / "zarr.json").read_text()).get("consolidated_metadata")
        copies = {
            f"{name}/zarr.json": value for name, value in (found or {"metadata": {}})["metadata"].items()
        }
    else:
        found = (group / ".zmetadata").exists() and json.loads((group / ".zmetadata").read_text())
        copies = found["metadata"] if found else {}
    if not found:
        return
    names = ("zarr.json",) if format == "zarr3" else (".zarray", ".zattrs", ".zgroup")
    stored = {
        str(path.relative_to(group)): json.loads(path.read_text())
        for at, _, files in os.walk(group, followlinks=True)
        for path in (Path(at) / name for name in names if name in files)
        if path.parent != group or format == "zarr2"
    }
    for key in sorted(stored.keys() | copies.keys()):
        a, b = (
            {name: value for name, value in (each or {}).items() if name != "consolidated_metadata"}
            for each in (stored.get(key), copies.get(key))
        )
        if a != b:
            yield f"consolidated metadata: {key} is {b} instead of {a}"


def documents(place: Path) -> set[tuple[str, str]]:
    """Return format and kind of the nodes at a place, by their documents alone."""
    found = set()
    if (place / "zarr.json").exists():
        found.add(("zarr3", json.loads((place / "zarr.json").read_text())["node_type"]))
    found |= {
        ("zarr2", kind)
        for key, kind in ((".zarray", "array"), (".zgroup", "group"))
        if (place / key).exists()
    }
    if (place / "attributes.json").exists():
        is_array = "dimensions" in json.loads((place / "attributes.json").read_text())
        found.add(("n5", "array" if is_array else "group"))
    return found


def _wrong_values(writer: Writer, place: Path, format: str) -> Iterator[str]:
    if writer.values is None:
        return
    name = writer.values
    if name.startswith("*"):  # of levels
        name = f"s{name[1:]}" if format == "n5" else name[1:]
    values = read(place / name if name else place, format)
    same = any(np.array_equal(values, expected) for expected in (VALUES, VALUES.T))
    if not same:
        yield f"other values: {values.tolist()}"


def read(place: Path, format: str) -> np.ndarray[Any, Any]:
    """Return what another library reads."""
    if format == "n5":
        spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(place)}}
        return np.asarray(tensorstore.open(spec).result().read().result())
    return np.asarray(zarr.open_array(str(place), mode="r", zarr_format=3 if format == "zarr3" else 2)[...])


def _wrong_listing(request: Request, place: Path, around: Path, format: str) -> Iterator[str]:
    """Yield what readers of the group around do not find."""
    name = str(place.relative_to(around))
    if name not in cw.open_group(around):
        yield f"{name} is not in the group around it"
    if format != "n5":
        group = zarr.open_group(str(around), mode="r", zarr_format=3 if format == "zarr3" else 2)
        if name not in group:
            yield f"zarr-python doesn't find {name} in the group around it"


def numbered(seed: object, n: int) -> Iterator[tuple[int, Request]]:
    """Yield the requests of a seed."""
    for number in range(n):
        yield number, Request.of(Random(f"{seed} {number}"))


def findings(seed: object, n: int, top: Path) -> dict[str, list[str]]:
    """Make requests, and return what is wrong with them, by what is wrong."""
    prepare(top / "prepared")
    out: dict[str, list[str]] = {}
    for number, request in numbered(seed, n):
        at = top / str(number)
        wrong = judge(request, top / "prepared", at)
        shutil.rmtree(at)
        if wrong:
            kind = re.sub(re.escape(str(top)) + r"/\d+|0x[0-9a-f]+", "…", wrong)
            out.setdefault(kind[:300], []).append(f"{seed} {number}: {request}")
    return out
