"""Processes that append to one place, some of which are killed, and what has to be there in the end."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from child_process import Children

# Each call appends 1 to 3 rows, and each row holds a number of its own in all columns.  What a call has
# acknowledged is noted in a file.
PROGRAM = """
import os, sys
sys.path.insert(0, {tests!r})
from appending import rows_of
kind, place, log, writer, n = sys.argv[1:4] + list(map(int, sys.argv[4:]))
acknowledged = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
import numpy as np
import chunkwise
{open}
for number in range(n):
    rows = rows_of(writer, number)
    {append}
    os.write(acknowledged, f"{{writer}} {{number}}\\n".encode())
"""

KINDS = {
    "array": (
        "array = chunkwise.open_array(place, 'r+')",
        "array.append(np.repeat(rows[:, None], 3, axis=1))",
    ),
    "dataset": (
        "import xarray as xr; from chunkwise.xarray import write_dataset",
        "write_dataset(xr.Dataset({'a': ('t', rows), 'b': (('t', 'x'), np.repeat(rows[:, None], 3, axis=1))},"
        " {'t': rows}), place, append_dim='t')",
    ),
    "z5py": (
        "import chunkwise.z5py; file = chunkwise.z5py.File(os.path.dirname(place), 'r+');"
        " array = file[os.path.basename(place)]",
        "array.append(np.repeat(rows[:, None], 3, axis=1))",
    ),
    "nwb": (
        "from chunkwise.hdmf import ZarrIO; io = ZarrIO(place, mode='r+');"
        " array = io.read_builder().datasets['d'].data",
        "array.extend(np.repeat(rows[:, None], 3, axis=1))",
    ),
    "nwb text": (
        "from chunkwise.hdmf import ZarrIO; io = ZarrIO(place, mode='r+');"
        " array = io.read_builder().datasets['d'].data",
        "array.extend([str(row) for row in rows])",
    ),
    "nwb table": (
        "from chunkwise.hdmf import ZarrIO; io = ZarrIO(place, mode='r+');"
        " array = io.read_builder().datasets['d'].data",
        "array.extend(np.array([(row, str(row)) for row in rows], [('n', 'i8'), ('s', object)]))",
    ),
}


def rows_of(writer: int, number: int) -> npt.NDArray[np.int64]:
    """Return the rows of one call."""
    return np.arange(1 + number % 3, dtype="i8") + 10_000 * writer + 10 * number + 1


def run_writers(
    kind: str,
    place: str,
    work: Path,
    *,
    n_writers: int,
    n_appends: int,
    n_kills: int,
    meanwhile: Callable[[], object] = lambda: None,
    seed: int = 0,
) -> set[tuple[int, int]]:
    """Run writers until all have ended, and return what they have acknowledged.

    `n_kills` times, some calls after the last time, one of them is killed at a random moment, and another
    takes its place.
    """
    program = dict(zip(("open", "append"), KINDS[kind], strict=True))
    code = PROGRAM.format(tests=str(Path(__file__).parent), **program)
    log = work / "acknowledged"
    numbers = random.Random(seed)
    last = 0
    with Children() as children:

        def start() -> Any:
            nonlocal last
            last += 1
            return children.python(code, kind, place, log, last, n_appends)

        running = [start() for _ in range(n_writers)]
        size, due = 0, 0.0
        while running:
            for process in [process for process in running if process.poll() is not None]:
                running.remove(process)
                errors = process.stderr.read().decode()
                assert process.returncode in (0, -9), errors
            lines = log.read_text().splitlines() if log.exists() else []
            if not due and n_kills and len(lines) > size + 2:
                due = time.monotonic() + numbers.uniform(0, 0.1)
            if due and time.monotonic() > due and running:
                victim = numbers.choice(running)
                victim.kill()
                victim.wait()
                running.append(start())
                n_kills, size, due = n_kills - 1, len(lines), 0.0
            meanwhile()
            time.sleep(0.005)
    lines = log.read_text().splitlines() if log.exists() else []
    return {(int(writer), int(number)) for writer, number in map(str.split, lines)}


def check_rows(found: npt.NDArray[np.int64], acknowledged: set[tuple[int, int]], n_before: int = 0) -> None:
    """Check that each acknowledged call is there once, any other at most once, and each as a whole."""
    assert found.ndim == 1
    calls = []
    at = n_before
    while at < len(found):
        code = int(found[at]) - 1
        writer, number = code // 10_000, code % 10_000 // 10
        rows = rows_of(writer, number)
        assert writer > 0, f"row {at} was never written: {found[max(0, at - 3) : at + 4]}"
        assert found[at : at + len(rows)].tolist() == rows.tolist(), f"row {at} is one of a part of a call"
        calls.append((writer, number))
        at += len(rows)
    assert len(set(calls)) == len(calls), "a call is there twice"
    assert acknowledged <= set(calls), f"lost: {sorted(acknowledged - set(calls))[:5]}"


if __name__ == "__main__":
    sys.exit("a module of the tests")
