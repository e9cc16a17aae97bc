"""``chunkwise nwb``: NWB and HDMF files, and ``chunkwise cp -r`` of one, which is a conversion."""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

from chunkwise.cli.command import (
    INCOMPLETE,
    UsageError,
    add_quiet,
    message,
    progress_of,
    required,
    show,
    tell,
)
from chunkwise.cli.options import add_flags, add_memory, add_on, copy_options, parse_codec, workers_of
from chunkwise.cli.servers import add_action_arguments
from chunkwise.copying.conventions import converted_name
from chunkwise.copying.copy_options import flags_of_copies
from chunkwise.copying.quantities import plural
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import Node

__all__ = ["add_arguments", "copy_nwb", "run", "run_conversion"]


_FORMATS = ("zarr2", "zarr3", "n5", "hdf5")

_ACTIONS = (
    ("info", "list the types, datasets, links and cached schemas in a file", ""),
    (
        "validate",
        "compare with the schema; name broken links and references",
        " The exit status is 1 if anything is wrong.",
    ),
    (
        "convert",
        "copy to another format; nothing is linked to the source",
        " Types are known from installed extensions and from the schemas in SOURCE.  Exit status 3 says that "
        "the copy lacks something which its format can't hold; the messages say what.",
    ),
    ("repack", "rewrite a store in the current layout, in place", ""),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
    info, check, convert, repack = (
        actions.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.{more}")
        for name, purpose, more in _ACTIONS
    )
    check.add_argument("--links-only", action="store_true", help="check only links and references")
    for action in (info, check):
        action.add_argument("path", metavar="PATH", help="store or HDF5 file")
    convert.add_argument("path", metavar="SOURCE", help="store or HDF5 file")
    convert.add_argument("target", metavar="TARGET", help="store or HDF5 file to write")
    convert.add_argument(
        "--codec",
        metavar="CODEC",
        help="for all arrays: none, zstd, gzip, blosc, ..., or JSON in the form of a format",
    )
    add_on(convert)
    add_memory(convert, "how much a process may use for large datasets, such as 2GB")
    add_flags(convert, _TAKEN)
    repack.add_argument(
        "path", metavar="PATH", help="local store; the old one is kept until the new one is complete"
    )
    for action in (convert, repack):
        add_quiet(action)
        action.add_argument(
            "--format",
            choices=_FORMATS if action is convert else _FORMATS[:3],
            help="hdf5 for TARGET in .nwb, .h5 or .hdf5, n5 for .n5, else zarr3"
            if action is convert
            else "by default that of the store",
        )
        action.add_argument(
            "--pickled-references",
            action="store_true",
            help="write references in Zarr v2 as hdmf-zarr does by default",
        )
        action.add_argument(
            "--drop-broken-links",
            action="store_true",
            help="leave broken links out, instead of refusing a file that has some",
        )
    for action in (info, check, convert, repack):
        add_action_arguments(action)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; `validate` exits with 1 if anything is wrong."""
    with required("this command", "hdmf"):
        import hdmf  # noqa: F401
    actions = {"info": _info, "validate": _validate, "convert": _convert, "repack": _repack}
    return actions[arguments.action](arguments)


# -- info ---------------------------------------------------------------------------------------------


def _info(arguments: argparse.Namespace) -> int:
    from chunkwise.hdmf.opening import open_file
    from chunkwise.hdmf.summary import summarize

    found = summarize(open_file(arguments.path))
    counts = found["counts"]
    nouns = {"groups": "group", "datasets": "dataset", "links": "link", "references": "reference dataset"}
    names = ("source", "format", "consolidated", "type", "nwb_version", "object_id")
    show(
        arguments,
        found,
        *(f"{name}: {found[name]}" for name in names if found[name] is not None),
        f"contents: {', '.join(plural(counts[name], noun) for name, noun in nouns.items())}",
        *(f"namespace: {name} {version}" for name, version in found["namespaces"].items()),
        *(f"  {n:6d}  {name}" for name, n in found["types"].items()),
    )
    return 0


# -- validate -----------------------------------------------------------------------------------------


def _validate(arguments: argparse.Namespace) -> int:
    from chunkwise.hdmf.backend.conversion import open_source
    from chunkwise.hdmf.backend.io import ZarrIO
    from chunkwise.hdmf.summary import check_links

    broken: list[str] = []
    schema: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # broken links are listed below
        with open_source(arguments.path) as io:
            if isinstance(io, ZarrIO):
                broken = [str(link) for link in check_links(io.stores)]
            elif arguments.links_only:
                raise UsageError("links of HDF5 files are the concern of HDF5's own tools")
            if not arguments.links_only:
                schema = _schema_errors(io)
    problems = [f"BROKEN  {text}" for text in broken] + [f"SCHEMA  {text}" for text in schema]
    verdict = plural(len(problems), "problem") if problems else "all good"
    out = {"broken": broken, "schema": schema}
    show(arguments, out, *problems, f"{shown_text(arguments.path)}: {verdict}")
    return 1 if problems else 0


def _schema_errors(io: Any) -> list[str]:
    with required("validate", "pynwb"):
        import pynwb
    from chunkwise.hdmf.backend.io import ZarrIO

    typed = not isinstance(io, ZarrIO) or "neurodata_type" in io.store.attributes("/")
    if not typed or "core" not in io.manager.namespace_catalog.namespaces:
        raise UsageError(f"{io.source} is no NWB file; --links-only looks at its links")
    return [str(error) for error in pynwb.validate(io=io)]


# -- convert and repack -------------------------------------------------------------------------------


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    codec = {"object_codec": "pickle"} if arguments.pickled_references else {}
    return {"drop_broken_links": arguments.drop_broken_links, **codec}


def _convert(arguments: argparse.Namespace) -> int:
    if arguments.pickled_references and arguments.format != "zarr2":
        raise UsageError("--pickled-references goes with --format zarr2")
    codec = None if arguments.codec is None else parse_codec(arguments.codec)
    options = {"codec": False if codec == "none" else codec, **_options(arguments)}
    return run_conversion(arguments, arguments.path, arguments.target, options)


def run_conversion(arguments: argparse.Namespace, source: str, target: str, options: dict[str, Any]) -> int:
    """Convert a file; return `INCOMPLETE` if the copy lacks something of it."""
    from chunkwise.hdmf import LossWarning, convert

    workers = None if arguments.on is None else workers_of(arguments)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", LossWarning)
        with progress_of(arguments, "converting", None, workers=workers) as progress:
            convert(
                source,
                target,
                format=arguments.format,
                overwrite=arguments.overwrite,
                progress=progress.advance,
                executor=workers,
                memory=arguments.memory,
                verify=arguments.verify,
                resume=arguments.resume,
                **options,
            )
    left = []
    for warning in seen:
        if issubclass(warning.category, LossWarning):
            left.append(str(warning.message))
            message(left[-1])
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if arguments.verify:
        message("everything was read again and compared with the source")
    tell(arguments, {"written": target} | ({"left_out": left} if left else {}), f"written {target}")
    return INCOMPLETE if left else 0


def _repack(arguments: argparse.Namespace) -> int:
    from chunkwise.hdmf import open_store
    from chunkwise.hdmf.backend.conversion import repack
    from chunkwise.hdmf.model.attributes import data_type_of

    path = os.path.abspath(arguments.path)
    if not os.path.isdir(path):
        raise UsageError(f"{shown_text(arguments.path)} is no local store")
    store = open_store(path)
    if data_type_of(store.attributes("/")) is None:  # data that HDMF has no place for would be lost
        raise UsageError(
            f"{shown_text(arguments.path)} is no NWB file: its root has no type; nothing is changed"
        )
    format = arguments.format or store.format
    if arguments.pickled_references and format != "zarr2":
        raise UsageError("--pickled-references goes with --format zarr2")
    with progress_of(arguments, "repacking", None) as progress:
        repack(path, format=format, progress=progress.advance, **_options(arguments))
    done = {"repacked": shown_text(arguments.path), "format": format}
    tell(arguments, done, f"repacked {shown_text(arguments.path)}, format {format}")
    return 0


_OPTIONS = (
    "dtype", "chunk", "shard", "fill_value", "dimension_names", "units", "codec", "region", "layout", "part",
    "dry_run", "checksum",
)  # fmt: skip
"""Options of ``cp`` that a conversion doesn't have, beside those of `CopyOptions`."""
_TAKEN = ("verify", "resume", "overwrite")


def copy_nwb(arguments: argparse.Namespace, root: Node) -> int:
    """Convert the file at the source, of which `root` is the root."""
    how = copy_options(arguments)
    flags = [flag for flag in flags_of_copies() if flag.name not in _TAKEN]
    given = [flag.metadata["flag"] for flag in flags if getattr(how, flag.name) != flag.default]
    for option in _OPTIONS:
        value = getattr(arguments, option, None)
        given += [f"--{option.replace('_', '-')}"] if value is not None and value is not False else []
    if given:
        raise UsageError(
            f"{shown_text(arguments.source)} is an NWB file, which is converted as by "
            f"`chunkwise nwb convert`, without {', '.join(given)}"
        )
    with required("a copy of an NWB file in another format", "hdmf"):
        import hdmf  # noqa: F401
    path = converted_name(root.location._replace(text=arguments.source))
    if path is None:
        raise UsageError(
            f"{shown_text(arguments.source)} is an NWB file in HDF5, which is converted from local files only"
        )
    message(f"{shown_text(arguments.source)} is an NWB file: it is converted")
    return run_conversion(arguments, path, arguments.destination, {})
