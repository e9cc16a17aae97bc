"""Processor time of ``import chunkwise`` and of a first read, beside numpy, tensorstore and zarr.

    python benchmarks/import_time.py [--runs 9] [--modules 10]

Each run is a process of its own, with bytecode that is there already; the least of all runs counts.  With
``--modules`` the modules of chunkwise that take longest, and those of others that it brings, follow.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from importlib.util import find_spec

CLOCK = "import time; start = time.process_time(); {}; print(time.process_time() - start)"
READ = (
    "import tempfile, {0} as m; p = tempfile.mkdtemp(); "
    "s = m.open({{'driver': 'zarr3', 'kvstore': {{'driver': 'file', 'path': p + '/a/'}}}}, "
    "create=True, dtype='uint8', shape=[8]).result(); s[2:5].read().result()"
)
PROGRAMS = {
    "import numpy": "import numpy",
    "import tensorstore": "import tensorstore",
    "import zarr": "import zarr",
    "import chunkwise": "import chunkwise",
    "create and read with tensorstore": READ.format("tensorstore"),
    "create and read with chunkwise": READ.format("chunkwise"),
}
LINE = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)")


def seconds(program: str, runs: int) -> float:
    """Return the least processor time of some runs, in seconds."""
    command = [sys.executable, "-c", CLOCK.format(program)]
    subprocess.run(command, check=True, capture_output=True)  # bytecode is written
    return min(float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(runs))


def modules(n: int) -> list[tuple[int, str]]:
    """Return the own time of the slowest modules that chunkwise imports, in microseconds."""
    command = [sys.executable, "-X", "importtime", "-c", "import numpy, chunkwise"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    found = [(int(m[1]), m[3]) for line in text.splitlines() if (m := LINE.match(line))]
    after_numpy = found[[name for _, name in found].index("numpy") + 1 :]
    return sorted(after_numpy, reverse=True)[:n]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--modules", type=int, default=0)
    arguments = parser.parse_args()
    print("| | processor time (ms) |\n|---|--:|")
    for name, program in PROGRAMS.items():
        if find_spec(name.rpartition(" ")[2]) is not None:
            print(f"| {name} | {1e3 * seconds(program, arguments.runs):.0f} |")
    for microseconds, module in modules(arguments.modules) if arguments.modules else ():
        print(f"{microseconds / 1e3:8.1f} ms  {module}")


if __name__ == "__main__":
    main()
