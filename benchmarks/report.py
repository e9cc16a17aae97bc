"""The tables of a comparison."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import NamedTuple

__all__ = ["Result", "document", "table"]

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
PEERS = {"tensorstore": "TensorStore", "zarr": "zarr-python", "fused": "FusedCodecPipeline"}


class Result(NamedTuple):
    """Medians of chunkwise and of one peer: seconds, or bytes of memory."""

    row: str
    operation: str
    peer: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How many times as fast chunkwise is."""
        return self.theirs / self.ours


def table(results: list[Result]) -> str:
    """Return a Markdown table: a row for each array, a column for each operation and peer."""
    columns = list(dict.fromkeys((r.operation, r.peer) for r in results))
    columns.sort(key=lambda c: ([r.operation for r in results].index(c[0]), list(PEERS).index(c[1])))
    blocks = []
    for group in (
        ("read", "write"),
        ("read (cpu)", "write (cpu)"),
        ("read (memory)", "write (memory)"),
        ("write with sync",),
        ("read of 8 elements", "open", "index"),
        ("read of 8 elements (cpu)", "open (cpu)", "index (cpu)"),
    ):
        chosen = [c for c in columns if c[0] in group]
        chosen.sort(key=lambda c: (group.index(c[0]), list(PEERS).index(c[1])))
        if chosen:
            blocks.append(_block(results, chosen, summary="open" not in group and "open (cpu)" not in group))
    return "\n\n".join(blocks)


def _block(results: list[Result], columns: list[tuple[str, str]], *, summary: bool) -> str:
    found = {(r.row, r.operation, r.peer): r.ratio for r in results}
    rows = list(dict.fromkeys(r.row for r in results if (r.operation, r.peer) in columns))
    lines = [
        "| chunks | " + " | ".join(f"{operation}: {PEERS[peer]}" for operation, peer in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for row in rows:
        ratios = [found.get((row, *column)) for column in columns]
        lines.append(f"| {row} | " + " | ".join("" if r is None else f"{r:.2f}" for r in ratios) + " |")
    if summary:
        every = [[found[row, *c] for row in rows if (row, *c) in found] for c in columns]
        lines.append("| **geometric mean** | " + " | ".join(f"**{_mean(r):.2f}**" for r in every) + " |")
        lines.append("| least | " + " | ".join(f"{min(r):.2f}" for r in every) + " |")
    return "\n".join(lines)


def _mean(ratios: Iterable[float]) -> float:
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs))


def document(
    path: Path, results: list[Result], versions: dict[str, str], missing: list[str], edge: int, command: str
) -> str:
    """Return the text of `path` with the measured part replaced."""
    before, after = (
        (path.read_text().split(BEGIN)[0], path.read_text().split(END)[-1]) if path.exists() else ("", "")
    )
    lines = [
        BEGIN,
        "",
        f"`{command}`, {date.today()}, arrays of {edge}³ uint16, {machine()}.  "
        + "; ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
        *[f"{line}." for line in missing],
        "",
        table(results),
        "",
        END,
    ]
    return before + "\n".join(lines) + (after or "\n")


def machine() -> str:
    """Return a description of the machine."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        model = " ".join([*names[:1], model])
    load = (
        f", load average {os.getloadavg()[2]:.1f} over the last 15 minutes"
        if hasattr(os, "getloadavg")
        else ""
    )
    return f"{n} cores, {model}, {platform.system()}{load}"
