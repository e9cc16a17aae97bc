"""The time of an import, alone and with a first read of a local array, compared with peers.

python benchmarks/import_time.py [--runs 15]

Each run is a new process with compiled bytecode; the table has medians. Processor time hardly depends on
other load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from statistics import median

import numpy as np

import chunkwise

READS = {
    "numpy": "pass",
    "chunkwise": "chunkwise.open({spec}, read=True).result().read().result()",
    "tensorstore": "tensorstore.open({spec}, read=True).result().read().result()",
    "zarr": "zarr.open_array({path}, mode='r')[...]",
}

PROGRAM = """
import json, sys, time
wall, processor = time.perf_counter(), time.process_time()
import {module}
imported = time.perf_counter() - wall, time.process_time() - processor
{read}
read = time.perf_counter() - wall, time.process_time() - processor
print(json.dumps([*imported, *read, len(sys.modules)]))
"""


def measure(module: str, path: str, runs: int, bytecode: str) -> list[float]:
    """Return medians: seconds of import and of import with read, wall and processor each, and modules."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}
    read = READS[module].format(spec=spec, path=repr(path))
    program = PROGRAM.format(module=module, read=read)
    rows = []
    for run in range(runs + 1):
        out = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment)
        if run:  # the first one compiles
            rows.append(json.loads(out.splitlines()[-1]))
    return [median(column) for column in zip(*rows, strict=True)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/a.zarr"
        chunkwise.create_array(path, np.arange(1 << 16, dtype="u2"), chunks=[1 << 14], format="zarr3")
        print("| | import, ms | of processor | with a first read, ms | of processor | modules |")
        print("|---|---|---|---|---|---|")
        for module in READS:
            *times, modules = measure(module, path, runs, f"{directory}/bytecode")
            print(f"| {module} | " + " | ".join(f"{1e3 * t:.0f}" for t in times) + f" | {modules:.0f} |")


if __name__ == "__main__":
    main()
