"""``chunkwise verify``: read and check every stored chunk of an array or a whole hierarchy."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from chunkwise.cli.command import add_quiet, progress_of, show
from chunkwise.cli.options import add_on, workers_of
from chunkwise.copying.journal import parse_part
from chunkwise.copying.quantities import format_duration, format_nbytes, plural
from chunkwise.copying.resolve import resolve
from chunkwise.copying.verify import NodeReport, reports_of
from chunkwise.hdmf.summary import broken_links

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="array or group")
    add_on(parser)
    parser.add_argument(
        "--part",
        metavar="I/N",
        help="do one of N parts, as in a SLURM array; only a run without --part compares a kept fingerprint",
    )
    add_quiet(parser, "print only bad chunks")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 1 if anything is bad."""
    part = None if arguments.part is None else parse_part(arguments.part)
    workers = workers_of(arguments)
    found = resolve(arguments.path)
    reports: list[NodeReport] = []
    with progress_of(arguments, "verifying", None, workers=workers) as progress:
        for report in reports_of(found, workers, progress.advance, part):
            reports.append(report)
            if not arguments.json and (report.bad or not arguments.quiet):
                progress.clear()
                _show(report)
    with_links = (
        found.array is None
        and found.as_node(damaged=True).kind == "group"
        and (part is None or part.number == 1)
    )
    broken = broken_links(arguments.path) if with_links else []
    n_bad = sum(len(report.bad) for report in reports) + len(broken)
    is_empty = part is None and not any(report.kind == "array" for report in reports)
    out = [_as_json(report) for report in reports]
    out += [{"name": link.where, "kind": "link", "bad": [{"reason": link.reason}]} for link in broken]
    summary = f"{_summary(reports, n_bad)} ({format_duration(progress.seconds)})"
    is_bad = bool(n_bad or is_empty)
    lines = [f"  BAD   {link}" for link in broken]
    if is_bad or not arguments.quiet:
        if any(map(_bare, reports)):
            lines.append("a changed byte can go unnoticed; `chunkwise cp --checksum` copies with checksums")
        lines.append(summary)
    if lines or arguments.json:
        show(arguments, out, *lines)
    return 1 if is_bad else 0


def _summary(reports: Sequence[NodeReport], n_bad: int) -> str:
    n_arrays = sum(1 for report in reports if report.kind == "array")
    n_chunks = sum(report.n_chunks for report in reports)
    size = format_nbytes(sum(report.nbytes for report in reports))
    bare = sum(_bare(report) for report in reports)
    verdict = f"{n_bad} BAD" if n_bad else "all decode" if bare else "all good"
    if not n_arrays and not n_bad:
        verdict = "there is nothing to verify"
    if bare:
        verdict += f"; {_uncovered(bare, n_chunks)}"
    return f"{plural(n_chunks, 'chunk')} of {plural(n_arrays, 'array')}, {size}: {verdict}"


def _show(report: NodeReport) -> None:
    name = report.name or "."
    if report.kind == "array":
        bare = _bare(report)
        state = f"{len(report.bad)} BAD" if report.bad else "decodes" if bare else "good"
        if bare:
            state += f"; {_uncovered(bare, report.n_chunks)}"
        print(f"{name}: {plural(report.n_chunks, 'chunk')}, {format_nbytes(report.nbytes)}: {state}")
    for key, reason in report.bad:
        print(f"  BAD   {key}: {reason}")
    for note in report.notes:
        print(f"  note  {note}")


def _bare(report: NodeReport) -> int:
    """Return how many chunks decode but may hold wrong values."""
    return 0 if report.fingerprint else report.n_decoded - report.n_covered


def _uncovered(n: int, n_chunks: int) -> str:
    """Return the note on unchecked values."""
    whose = "the values" if n == n_chunks else f"the values of {plural(n, 'chunk')}"
    return f"no checksum covers {whose}"


def _as_json(report: NodeReport) -> dict[str, object]:
    return {
        "name": report.name,
        "kind": report.kind,
        "format": report.format,
        "chunks": report.n_chunks,
        "covered": report.n_covered,
        "bytes": report.nbytes,
        "fingerprint": report.fingerprint,
        "bad": [{"key": key, "reason": reason} for key, reason in report.bad],
        "notes": report.notes,
    }
