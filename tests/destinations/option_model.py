"""Random options of new arrays, right and wrong ones together; other readers judge what comes of them.

A case is a writer, a source, a format, a place and some options.  If all values are right, the document says
what was asked for, and another library reads the elements; if one is wrong, an error names the option, and
every byte is as before.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from destinations.option_values import DRAWN, FLAGS, Option, Source
from destinations.request_model import FORMATS, CommandError, _command, read, snapshot, stale

import chunkwise as cw
from chunkwise.errors import ChunkwiseError

CONTEXT = cw.Context()
PLACES = {"memory": cw.KvStore.open("memory://", context=CONTEXT).result()}
"""Stores in which there is a directory for each case, beside files."""


@dataclass(frozen=True)
class Case:
    """A request."""

    writer: str
    source: Source
    format: str
    store: str
    overwrite: bool
    options: tuple[Option, ...]

    def __str__(self) -> str:
        s = self.source
        return (
            f"{self.writer} {s.format} {s.values.dtype}{list(s.values.shape)} chunks {s.chunks} "
            f"shards {s.shards} names {s.names} rows {s.written} -> {self.format} in {self.store}"
            f"{', overwriting' if self.overwrite else ''}: {list(self.options)}"
        )


# -- writers -------------------------------------------------------------------------------------------


def _options(options: tuple[Option, ...]) -> list[object]:
    return [
        text
        for each in options
        for text in ([FLAGS.get(each.name, f"--{each.name}")] + ([f"{each.text}"] if each.text else []))
    ]


def _flags(case: Case) -> list[object]:
    flags = _options(case.options)
    joined = [
        f"{a}={b}" if isinstance(b, str) and not str(b).startswith("--") else a for a, b in _pairs(flags)
    ]
    return [*joined, "--format", case.format, *(["--overwrite"] if case.overwrite else [])]


def _pairs(flags: list[object]) -> Iterator[tuple[object, object]]:
    at = 0
    while at < len(flags):
        value = flags[at + 1] if at + 1 < len(flags) and not str(flags[at + 1]).startswith("--") else None
        yield flags[at], value
        at += 1 if value is None else 2


def _given(case: Case) -> dict[str, Any]:
    return {each.name: each.value for each in case.options}


def _create(case: Case, source: Any, group: Any) -> None:
    given = _given(case)
    values = case.source.values
    cw.create_array(
        group / "a/", values, format=case.format, overwrite=case.overwrite, context=CONTEXT, **given
    )


def _create_of_array(case: Case, source: Any, group: Any) -> None:
    opened = cw.open_array(source / "a/")
    cw.create_array(group / "a/", opened, format=case.format, overwrite=case.overwrite, **_given(case))


def _create_in_group(case: Case, source: Any, group: Any) -> None:
    opened = cw.open_group(group, "r+")
    opened.create_array("a", case.source.values, overwrite=case.overwrite, **_given(case))


def _of_dask(case: Case) -> Any:
    import dask.array

    return dask.array.from_array(case.source.values, chunks=4)


def _create_of_dask(case: Case, source: Any, group: Any) -> None:
    given = _given(case)
    cw.create_array(group / "a/", _of_dask(case), format=case.format, overwrite=case.overwrite, **given)


def _from_dask(case: Case, source: Any, group: Any) -> None:
    driver = {"zarr2": "zarr"}.get(case.format, case.format)
    spec = {"driver": driver, "kvstore": (group / "a/").url}
    cw.from_dask(
        _of_dask(case),
        spec,
        context=CONTEXT,
        delete_existing=case.overwrite,
        scheduler="synchronous",
        **_given(case),
    )


def _copy(case: Case, source: Any, group: Any) -> None:
    cw.copy(source / "a/", group / "a/", format=case.format, overwrite=case.overwrite, **_given(case))


def _copy_tree(case: Case, source: Any, group: Any) -> None:
    cw.copy_tree(source, group, format=case.format, overwrite=case.overwrite, **_given(case))


def _group_copy(case: Case, source: Any, group: Any) -> None:
    cw.open_group(group, "r+").copy(cw.open_array(source / "a/"), "a", options=_given(case))


def _dataset(case: Case, source: Any, group: Any) -> None:
    import xarray

    from chunkwise.xarray import write_dataset

    dims = [name or f"d{at}" for at, name in enumerate(case.source.names)]
    dataset = xarray.Dataset({"a": (dims, case.source.values)})
    encoding = {"a": _given(case)}
    write_dataset(dataset, group, mode="a" if case.overwrite else "w-", format=case.format, encoding=encoding)


def _cp(case: Case, source: Any, group: Any) -> None:
    _command("cp", Path(source.path) / "a", Path(group.path) / "a", "--quiet", *_flags(case))


def _cp_r(case: Case, source: Any, group: Any) -> None:
    _command("cp", "-r", Path(source.path), Path(group.path), "--quiet", *_flags(case))


def _cli_create(case: Case, source: Any, group: Any) -> None:
    shape = ",".join(map(str, case.source.values.shape))
    dtype = (
        [] if any(each.name == "dtype" for each in case.options) else ["--dtype", case.source.values.dtype]
    )
    _command("create", Path(group.path) / "a", "--shape", shape, *dtype, *_flags(case))


@dataclass(frozen=True)
class Writer:
    """A writer of arrays."""

    run: Callable[[Case, Any, Any], None]
    options: tuple[str, ...]
    group: str = "there"  # "none": there is none before
    command: bool = False
    keeps: bool = False  # what the source has
    overwrites: bool = True
    empty: bool = False  # it writes no values


ALL = tuple(name for name in DRAWN if name != "attributes")
WRITERS = {
    "create_array": Writer(_create, (*ALL[:6], "checksum", "attributes")),
    "create_array of an array": Writer(_create_of_array, (*ALL[:6], "checksum", "attributes")),
    "create_array of dask": Writer(_create_of_dask, (*ALL[:6], "checksum", "attributes")),
    "Group.create_array": Writer(_create_in_group, (*ALL[:6], "checksum", "attributes")),
    "from_dask": Writer(_from_dask, (*ALL[:6], "checksum")),
    "copy": Writer(_copy, ALL, keeps=True),
    "copy_tree": Writer(_copy_tree, ALL, "none", keeps=True),
    "Group.copy": Writer(_group_copy, ALL, keeps=True, overwrites=False),
    "write_dataset": Writer(_dataset, ("chunks", "shards", "codec", "checksum"), "none"),
    "cp": Writer(_cp, ALL, command=True, keeps=True),
    "cp -r": Writer(
        _cp_r, ("chunks", "shards", "codec", "fill_value", "dtype", "checksum"), "none", True, True
    ),
    "create": Writer(_cli_create, (*ALL, "attributes"), command=True, overwrites=False, empty=True),
}


# -- cases ---------------------------------------------------------------------------------------------


def draw_case(random: Random, stores: tuple[str, ...] = ("file", "file", "memory")) -> Case:
    """Return a random case."""
    name = random.choice(list(WRITERS))
    writer = WRITERS[name]
    format = random.choice(FORMATS)
    rank = random.choice((1, 2, 2, 2, 3)) if format == "n5" else random.choice((0, 1, 2, 2, 3))
    source_format = random.choice((*FORMATS, "zarr1")) if rank else random.choice(FORMATS[:2])
    dtypes = ["u1", "u2", "i2", "i4", "f4", "f8"]
    if "n5" not in (format, source_format):
        dtypes += ["bool", "c8", "U3", "M8[s]"][
            : 4 if source_format == "zarr2" and name != "write_dataset" else 2
        ]
    dtype = np.dtype(random.choice(dtypes))
    shape = tuple(random.choice((1, 2, 5, 6, 7, 8, 0)) if at or rank > 1 else 7 for at in range(rank))
    size = math.prod(shape)
    values = (np.arange(size) % 100 + 1).astype("M8[s]" if dtype.kind == "M" else dtype)
    values = values.astype(dtype).reshape(shape)
    chunks = tuple(random.randint(1, max(1, n)) for n in shape)
    shards = (
        tuple(2 * n for n in chunks) if source_format == "zarr3" and rank and random.random() < 0.3 else None
    )
    names: tuple[str | None, ...] = tuple("yxz"[at] for at in range(rank))
    if random.random() < 0.3:
        names = tuple(None for _ in names)
    source = Source(
        source_format,
        values,
        chunks,
        shards,
        names,
        random.choice(({}, {"q": 1}, {"_ARRAY_DIMENSIONS": 5})) if random.random() < 0.5 else {},
        random.choice((shape[0], shape[0] // 2)) if shape and writer.keeps else -1,
    )
    drawn = random.sample(writer.options, random.choice((0, 1, 1, 2, 2, 3)))
    options = [DRAWN[each](random, source, format) for each in drawn]
    if any(each.name == "dtype" for each in options):  # of another type, a wrong fill value may be right
        options = [each for each in options if each.right or each.name != "fill_value"]
    if random.random() < 0.5:
        options = [each for each in options if each.right]
    if writer.command:
        options = [each for each in options if each.text is not None]
    store = "file" if writer.command else random.choice(stores)
    return Case(name, source, format, store, writer.overwrites and random.random() < 0.5, tuple(options))


def _place(case: Case, top: Path, number: str, name: str) -> Any:
    if case.store == "file":
        (top / name).mkdir(parents=True, exist_ok=True)
        return cw.KvStore.open(f"file://{top / name}/", context=CONTEXT).result()
    return PLACES[case.store] / f"{number}/{name}/"


def _there(place: Any, at: Path) -> Path:
    """Return the directory of a place, or a copy of what is in another store now."""
    if place.url.startswith("file:"):
        return Path(place.path)
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    for key in place.list().result():
        text = key.decode()
        (at / text).parent.mkdir(parents=True, exist_ok=True)
        (at / text).write_bytes(place[text])
    return at


def judge(case: Case, top: Path, number: str) -> str:
    """Do what a case asks for, and return what is wrong; empty if nothing is."""
    writer = WRITERS[case.writer]
    source, group = _place(case, top, number, "source"), _place(case, top, number, "g")
    values = _make(case, source)
    if case.overwrite or writer.group == "there":
        around = cw.create_group(group, format=case.format, overwrite=True)
        around.create_array("old", np.arange(5))
        if case.overwrite:
            around.create_array("a", np.arange(4, dtype="u1"), attributes={"before": 1})
        if case.format != "n5" and (writer.group == "there" or case.writer == "write_dataset"):
            around.consolidate()
    elif case.store == "file":
        Path(group.path).rmdir()
    before = _state(group, top / "before")
    wrong = [each for each in case.options if each.right is False]
    sure = all(each.right for each in case.options)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            writer.run(case, source, group)
    except (ChunkwiseError, CommandError, TypeError) as e:
        after = _state(group, top / "after")
        if after != before:
            return f"an error, but changed: {sorted(dict(set(after.items()) ^ set(before.items())))}: {e}"
        if type(e) is TypeError and not (wrong and any(each.name in str(e) for each in wrong)):
            return f"a raw error: {e!r}"
        if wrong and not any(_is_named(each, str(e)) for each in case.options if not each.right):
            return f"none of {[each.name for each in wrong]} is named: {type(e).__name__}: {e}"
        return f"refused: {type(e).__name__}: {e}" if sure and not _is_impossible(case, str(e)) else ""
    except Exception as e:
        return f"a raw error: {e!r}"
    if wrong:
        return f"a wrong option was taken: {wrong}"
    try:
        return "; ".join(_wrong(case, values, group, top))
    except Exception as e:
        return f"can't be read: {e!r}"


def _is_named(option: Option, text: str) -> bool:
    names = [option.name.removesuffix("s"), FLAGS.get(option.name, f"--{option.name}")]
    return any(name in text for name in names)


def _is_impossible(case: Case, text: str) -> bool:
    """Return True if an error says rightly that the format can't hold it."""
    values, given = case.source.values, _given(case)
    if case.format == "n5" and ("N5 has no" in text or "n5 has no" in text or values.ndim == 0):
        return True
    if "shards" in text and case.source.shards and {"chunks", "shards"} & given.keys():
        return "can't be divided" in text
    return False


def _state(group: Any, at: Path) -> dict[str, bytes]:
    there = _there(group, at)
    return snapshot(there) if there.exists() else {}


def _make(case: Case, source: Any) -> np.ndarray[Any, Any]:
    """Make the source, and return the values that it has."""
    s = case.source
    if s.format == "zarr1":  # it has no groups
        cw.create_group(source, format="zarr2")
        cw.create_array(source / "a/", s.values, chunks=s.chunks, format="zarr1", attributes=s.attributes)
        return s.values
    root = cw.create_group(source, format=s.format, attributes={"of": "the group"})
    more: dict[str, Any] = {"shards": s.shards} if s.shards else {}
    if any(s.names):
        more["dimension_names"] = s.names
    attributes = {k: v for k, v in s.attributes.items() if k != "_ARRAY_DIMENSIONS" or s.format != "zarr2"}
    shape, dtype = s.values.shape, s.values.dtype
    array = root.create_array("a", shape=shape, dtype=dtype, chunks=s.chunks, attributes=attributes, **more)
    if s.written < 0:
        array.write(s.values).result()
    elif s.written:
        array[: s.written].write(s.values[: s.written]).result()
    return np.asarray(array.read().result())


# -- what must come of it ------------------------------------------------------------------------------


def _wrong(case: Case, values: np.ndarray[Any, Any], group: Any, top: Path) -> Iterator[str]:
    writer, given = WRITERS[case.writer], {each.name: each for each in case.options}
    there = _there(group, top / "after")
    if (
        case.writer != "copy_tree"
        and writer.group == "there"
        and not np.array_equal(read(there / "old", case.format), np.arange(5))
    ):
        yield "the other array has changed"
    found = documented(there / "a", case.format)
    if writer.empty:
        values = np.asarray(cw.open_array(there / "a").read().result())  # all of it is missing
    if writer.empty:
        pass
    elif "dtype" in given and given["dtype"].expect:
        if found["dtype"] != given["dtype"].expect:
            yield f"data type {found['dtype']}"
        values = values.astype(given["dtype"].expect)
    elif "dtype" in given:
        values = values.astype(found["dtype"])
    elif case.writer == "write_dataset" and values.dtype.kind == "b":
        pass  # xarray's convention is int8
    elif found["dtype"] != ("<U3" if values.dtype.kind == "U" else values.dtype.name):
        yield f"data type {found['dtype']} instead of {values.dtype.name}"
    fill = given.get("fill_value")
    if fill is not None and fill.right and case.format != "n5" and not _same(found["fill"], fill.expect):
        yield f"fill value {found['fill']!r}"
    has_gaps = writer.empty or (case.source.written >= 0 and case.source.written < len(values))
    if (fill is None or not has_gaps) and (values.dtype.kind not in "U" or case.format != "zarr3"):
        read_values = read(there / "a", case.format)
        if not _equal(read_values, values):
            yield f"other values: {read_values.tolist()} instead of {values.tolist()}"
    mine = cw.open_array(there / "a").read().result()
    if (fill is None or not has_gaps) and not _equal(np.asarray(mine), values):
        yield f"chunkwise reads other values: {np.asarray(mine).tolist()}"
    for name in ("chunks", "codec"):
        option = given.get(name)
        if option is not None and option.right and option.expect is not None:
            expected = list(option.expect) if name == "chunks" else option.expect[0]
            if name == "codec" and "checksum" in given:
                continue
            if found[name] != expected:
                yield f"{name}: {found[name]} instead of {expected}"
    names = given.get("dimension_names")
    if names is not None and names.right and found["names"] != names.expect and names.expect:
        yield f"names {found['names']}"
    attributes = given.get("attributes")
    if attributes is not None and any(found["attributes"].get(k) != v for k, v in attributes.expect.items()):
        yield f"attributes {found['attributes']}"
    if writer.keeps and "q" in case.source.attributes and found["attributes"].get("q") != 1:
        yield f"attributes are lost: {found['attributes']}"
    if "before" in found["attributes"]:
        yield "attributes of what was replaced are there"
    if case.format != "n5" and (there / {"zarr3": "zarr.json", "zarr2": ".zgroup"}[case.format]).exists():
        yield from stale(there, case.format)


def _equal(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def _same(found: Any, asked: Any) -> bool:
    if isinstance(asked, float) and math.isnan(asked):
        return found == "NaN"
    return found is not None and type(found) is not str and float(found) == float(asked)


def documented(place: Path, format: str) -> dict[str, Any]:
    """Return what the document of an array says, read as JSON."""
    if format == "n5":
        d = json.loads((place / "attributes.json").read_text())
        own = {"dimensions", "blockSize", "dataType", "compression"}
        return {
            "dtype": d["dataType"],
            "chunks": d["blockSize"],
            "codec": d["compression"]["type"],
            "fill": 0,
            "names": d.get("axes"),
            "attributes": {name: value for name, value in d.items() if name not in own},
        }
    if format == "zarr2":
        d = json.loads((place / ".zarray").read_text())
        attributes = json.loads((place / ".zattrs").read_text()) if (place / ".zattrs").exists() else {}
        return {
            "dtype": np.dtype(d["dtype"]).name if "U" not in d["dtype"] else d["dtype"],
            "chunks": d["chunks"],
            "codec": None if d["compressor"] is None else d["compressor"]["id"],
            "fill": d["fill_value"],
            "names": attributes.get("_ARRAY_DIMENSIONS"),
            "attributes": attributes,
        }
    d = json.loads((place / "zarr.json").read_text())
    chunks, codecs = d["chunk_grid"]["configuration"]["chunk_shape"], d["codecs"]
    sharded = next((codec for codec in codecs if codec["name"] == "sharding_indexed"), None)
    if sharded is not None:
        chunks, codecs = sharded["configuration"]["chunk_shape"], sharded["configuration"]["codecs"]
    last = codecs[-1]["name"]
    dtype = d["data_type"]
    if isinstance(dtype, dict):
        names = {
            "fixed_length_utf32": "<U3",
            "null_terminated_bytes": "S3",
            "numpy.datetime64": "datetime64[s]",
        }
        dtype = names.get(dtype["name"], dtype["name"])
    return {
        "dtype": dtype,
        "chunks": chunks,
        "codec": None if last in ("bytes", "vlen-utf8") else last,
        "fill": d["fill_value"],
        "names": d.get("dimension_names"),
        "attributes": d.get("attributes", {}),
    }


def findings(
    seed: object, n: int, top: Path, stores: tuple[str, ...] = ("file", "file", "memory")
) -> dict[str, list[str]]:
    """Make requests, and return what is wrong with them, by what is wrong."""
    out: dict[str, list[str]] = {}
    for number in range(n):
        case = draw_case(Random(f"{seed} {number}"), stores)
        at = top / str(number)
        at.mkdir(parents=True)
        wrong = judge(case, at, f"{seed}-{number}")
        shutil.rmtree(at, ignore_errors=True)
        if wrong:
            kind = re.sub(re.escape(str(top)) + r"/\d+|0x[0-9a-f]+|memory://\S*", "…", wrong)
            out.setdefault(f"{case.writer}: {kind[:300]}", []).append(f"{seed} {number}: {case}")
    return out
