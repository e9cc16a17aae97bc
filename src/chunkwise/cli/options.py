"""Values of options, parsed from text: shapes, sizes, regions, compressors, JSON."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Collection
from dataclasses import replace
from math import isfinite
from types import EllipsisType
from typing import Any, NoReturn, TypeAlias

from chunkwise import TensorStore, d
from chunkwise.cli.command import UsageError, message
from chunkwise.copying.array_options import Units, read_sizes
from chunkwise.copying.copy_options import CopyOptions, flags_of_copies
from chunkwise.copying.executors import Workers, named_workers, threads_here
from chunkwise.copying.journal import parse_part
from chunkwise.copying.resolve import resolve
from chunkwise.errors import InvalidArgumentError, OptionError, OutOfBoundsError
from chunkwise.extension import JSON
from chunkwise.extension.inside import as_nbytes, parse_unit
from chunkwise.extension.inside import parse_json as load_text

__all__ = [
    "add_flags",
    "add_memory",
    "add_on",
    "add_view",
    "array_arguments",
    "copy_options",
    "index_of",
    "parse_chunk_sizes",
    "parse_codec",
    "parse_json",
    "parse_names",
    "parse_nbytes",
    "parse_region",
    "parse_sizes",
    "select",
    "sizes",
    "units_of",
    "view_of",
    "workers_of",
]

_SCALAR = ("scalar", "()", "[]", "")
_SEPARATORS = re.compile(r"\s*[,x×]\s*")


def add_on(parser: argparse.ArgumentParser) -> None:
    """Declare --on."""
    parser.add_argument(
        "--on",
        metavar="WORKERS",
        help="workers: threads:N, processes:N, or the address of a Dask scheduler, such as tcp://host:8786",
    )


def workers_of(arguments: argparse.Namespace, memory: int | None = None) -> Workers:
    """Return the workers that --on names, by default threads of this process that use up to `memory`."""
    if arguments.on is not None:
        return named_workers(arguments.on)
    return replace(threads_here(), memory=memory)


def add_flags(parser: argparse.ArgumentParser, names: Collection[str] | None = None) -> None:
    """Declare the flags of copies, or those of some names."""
    for field in flags_of_copies():
        if names is None or field.name in names:
            how = {name: value for name, value in field.metadata.items() if name != "flag"}
            parser.add_argument(field.metadata["flag"], dest=field.name, **how)


def copy_options(arguments: argparse.Namespace) -> CopyOptions:
    """Return how an array, a hierarchy or an image is to be copied."""
    part = getattr(arguments, "part", None)
    flags = {field.name: getattr(arguments, field.name, None) for field in flags_of_copies()}
    given = {name: value for name, value in flags.items() if value is not None}
    return CopyOptions(memory=arguments.memory, part=None if part is None else parse_part(part), **given)


def add_memory(parser: argparse.ArgumentParser, help: str) -> None:
    """Declare --memory, in bytes."""
    parser.add_argument("--memory", metavar="SIZE", type=lambda text: parse_nbytes(text, "memory"), help=help)


def sizes(name: str, *, lowest: int = 1) -> Callable[[str], tuple[int, ...]]:
    """Return the parser of an option's sizes."""
    return lambda text: parse_sizes(text, name, lowest=lowest)


def units_of(arguments: argparse.Namespace) -> Units | None:
    """Return the units that --units gives, in the order of the dimensions or by name; None without it."""
    if arguments.units is None:
        return None
    words = parse_names(arguments.units)
    if all("=" in word for word in words):
        named = [word.partition("=") for word in words]
        return {name.strip(): parse_unit(unit) for name, _, unit in named}
    return tuple(map(parse_unit, words))


def parse_sizes(text: str, name: str, *, lowest: int = 1) -> tuple[int, ...]:
    """Parse sizes such as ``64,64,32`` or ``64x64x32``, each at least `lowest`; ``scalar`` has none."""
    if text.strip() in _SCALAR:
        return ()
    sizes = []
    for part in _SEPARATORS.split(text.strip().strip("()[]").strip().removesuffix(",")):
        if not (part.isascii() and part.isdigit()) or int(part) < lowest:
            raise UsageError(
                f'--{name}: expected sizes of at least {lowest} such as 64,64,32, but received "{text}"'
            )
        sizes.append(int(part))
    return tuple(sizes)


def parse_chunk_sizes(text: str, option: str) -> Any:
    """Parse sizes of chunks: ``64,64,-1``, ``64`` for all dimensions, ``auto``, or ``time=90,lat=8``.

    -1 stands for a whole dimension; False, in place of shards, for none.
    """
    if option == "shards" and text.strip() == "none":
        return False
    if text.strip() in _SCALAR:
        return ()
    named: dict[str, int | str] = {}
    sizes: list[int | str] = []
    words = text.strip().strip("()[]").strip().removesuffix(",")
    for word in words.split(",") if "=" in words else _SEPARATORS.split(words):  # "x" may be a name
        name, is_named, size = (part.strip() for part in word.rpartition("="))
        found = int(size) if re.fullmatch("-?[0-9]+", size, re.ASCII) else size
        if not is_named:
            sizes.append(found)
        elif name in named:
            raise UsageError(f'--{option.removesuffix("s")}: "{name}" occurs twice in "{text}"')
        else:
            named[name] = found
    try:
        if named and sizes:
            raise OptionError(f"{option}: {sizes[0]} has no name, but other sizes have")
        return read_sizes(named or (sizes if len(sizes) > 1 else sizes[0]), option)
    except OptionError as e:
        raise UsageError(f"--{e.message.replace(option, option.removesuffix('s'), 1)}") from None


def array_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return chunks, shards and codec as they are given, for options of new arrays."""
    shards = {} if arguments.shard is None else {"shards": arguments.shard}
    return {"chunks": arguments.chunk, "codec": arguments.codec, **shards}


def parse_nbytes(text: str, name: str) -> int:
    """Parse a number of bytes: ``500MB``, ``1.5 GiB``, ``1000000``."""
    try:
        return as_nbytes(text, f"--{name}")
    except InvalidArgumentError as e:
        raise UsageError(e.message) from None


def parse_names(text: str) -> tuple[str, ...]:
    """Read names separated by commas; an empty one is none."""
    return tuple(part.strip() for part in text.split(","))


def parse_codec(text: str) -> JSON:
    """Parse a compressor: ``zstd:5``, ``blosc:lz4:5:shuffle``, ``none``, or JSON in the format's form."""
    if text.lstrip()[:1] in ("{", "["):
        return parse_json(text, "--codec")
    return text.strip()


_PYTHON = {"True": "true", "False": "false", "None": "null"}


def parse_json(text: str, what: str) -> JSON:
    """Parse JSON; raise UsageError if it is invalid."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"JSON has no {name}")

    def number(text: str) -> float:
        found = float(text)
        return found if isfinite(found) else refuse(f"{text}: a number has 64 bits")

    try:
        return load_text(text, parse_constant=refuse, parse_float=number)
    except ValueError as e:
        word = f"; text is '{json.dumps(text)}'" if text[:1].isalnum() and "'" not in text else ""
        if text in _PYTHON:
            word = f"; {_PYTHON[text]} is written so in JSON"
        raise UsageError(f"{what}: expected JSON, but received {text!r}{word} ({e})") from None


Region: TypeAlias = "tuple[int | slice | EllipsisType, ...]"

_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")  # Python reads no longer ones
_LARGEST = 2**62 - 2  # index of an array


def add_view(parser: argparse.ArgumentParser) -> None:
    """Declare the array of a command, and its region."""
    parser.add_argument("path", metavar="PATH", help="array, image, or *.json with the spec of a view")
    parser.add_argument("--region", metavar="REGION", default="...", help="by default all of it")


def view_of(arguments: argparse.Namespace) -> TensorStore:
    """Return the view of the array and region that the command names."""
    found = resolve(arguments.path)
    array = found.as_array(of_image=True)
    for note in filter(None, (found.assumed, found.left_out)):
        message(note)
    return select(array, arguments.region)


def parse_region(text: str) -> Region:
    """Parse a region: per dimension an index, ``start:stop`` or ``start:stop:step``; ``...`` for the rest.

    >>> parse_region("100:110, 7, ::2, ...")
    (slice(100, 110, None), 7, slice(None, None, 2), Ellipsis)
    """
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    if not inner:
        return (...,)
    terms = tuple(_term(part.strip(), text) for part in inner.removesuffix(",").split(","))
    if sum(term is ... for term in terms) > 1:
        raise UsageError(f'region "{text}" has more than one "..."')
    return terms


def index_of(store: TensorStore, text: str) -> tuple[int | slice, ...]:
    """Return the index or slice that a region selects in each dimension."""
    # Not NumPy's rules: in a domain that begins below 0 a negative number is an index like others, and what
    # lies outside is an error, since a slice that is cut would hide a wrong number.
    terms = parse_region(text)
    n_given = sum(term is not ... for term in terms)
    if n_given > store.rank:
        raise UsageError(f'region "{text}" has {n_given} parts, but the array has {store.rank} dimensions')
    at = terms.index(...) if ... in terms else len(terms)
    index: list[Any] = [*terms[:at], *[slice(None)] * (store.rank - n_given), *terms[at + 1 :]]
    domain = store.domain
    bounds = list(zip(domain.inclusive_min, domain.exclusive_max, strict=True))
    found = tuple(
        _from_end(term, high) if low >= 0 else term for term, (low, high) in zip(index, bounds, strict=True)
    )
    explicit = store[d[:].mark_bounds_implicit[False]] if store.rank else store
    for at, (term, (low, high)) in enumerate(zip(found, bounds, strict=True)):
        try:
            explicit[(slice(None),) * at + (term,)]
        except OutOfBoundsError:
            label = store.domain.labels[at]
            which = f'{at} ("{label}")' if label else str(at)
            raise OutOfBoundsError(
                f'"{_part_text(index[at])}" in region "{text}" is no part of dimension {which}, which is '
                f"[{low}, {high})"
            ) from None
    return found


def select(store: TensorStore, text: str) -> TensorStore:
    """Return the view that a region selects; see `index_of`."""
    index = index_of(store, text)
    return store[index] if index else store


def _part_text(term: int | slice) -> str:
    """Return the text of a term of a region."""
    if not isinstance(term, slice):
        return str(term)
    numbers = ["" if number is None else str(number) for number in (term.start, term.stop, term.step)]
    return ":".join(numbers if numbers[2] else numbers[:2])


def _from_end(term: Any, high: int) -> Any:
    """Return a term with positions in place of numbers that count from the end `high`."""
    if isinstance(term, slice):
        return slice(_from_end(term.start, high), _from_end(term.stop, high), term.step)
    # Positions before the start stay as they are, for an error that names them.
    return term + high if term is not None and -high <= term < 0 else term


def _term(part: str, text: str) -> int | slice | EllipsisType:
    if part == "...":
        return ...
    numbers = [_number(number.strip(), part, text) for number in part.split(":")]
    if len(numbers) == 1:
        if numbers[0] is None:
            raise UsageError(f'region "{text}" has an empty part; ":" selects a whole dimension')
        return numbers[0]
    if len(numbers) > 3:
        raise UsageError(f'"{part}" in region "{text}" has more than start:stop:step')
    if len(numbers) == 3 and numbers[2] == 0:
        raise UsageError(f'"{part}" in region "{text}" has a step of 0')
    return slice(*numbers)


def _number(number: str, part: str, text: str) -> int | None:
    if not number:
        return None
    if not _INTEGER.fullmatch(number):
        raise UsageError(f'"{part}" in region "{text}" is neither an index nor start:stop:step nor "..."')
    value = int(number)
    if abs(value) > _LARGEST:
        raise UsageError(f'"{part}" in region "{text}" is beyond the largest index, {_LARGEST}')
    return value
