"""Memory, threads, descriptors and space, taken away at each step of a read, a write, a copy and an open.

``shortage.py [--steps N]``: each piece of work runs in a process of its own, which has loaded its libraries
and is short of something from its k-th step on.  It must end, with the right result or an error that says
what was short, and what is stored afterwards is the old or the new.  Runs on Linux only.
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw

_PROGRAM = """
import builtins, json, os, resource, sys, threading, time
import numpy as np
import chunkwise as cw

work, short, k, folder = json.loads(sys.argv[1])
values = np.arange(64 * 64 * 64, dtype="u2").reshape(64, 64, 64)
copied = {"chunks": (64, 8, 8), "memory": 300_000, "sync": False}
steps = {
    "open": lambda: cw.open_array(folder + "/old.zarr"),
    "read": lambda: cw.read(folder + "/source.zarr"),
    "write": lambda: cw.create_array(folder + "/old.zarr", values, chunks=(8, 64, 64), overwrite=True),
    "copy": lambda: cw.copy(folder + "/source.zarr", folder + "/old.zarr", overwrite=True, **copied),
}

def memory():
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + k * 300_000, -1))

def threads():
    start, n = threading.Thread.start, iter(range(1 << 30))
    def limited(thread):
        if next(n) >= k:
            raise RuntimeError("can't start new thread")
        start(thread)
    threading.Thread.start = limited

def descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + k, 4096))

def space():
    import errno
    call, n = os.write, iter(range(1 << 30))
    def limited(file, data):
        if file > 2 and next(n) >= k:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(file, data)
    os.write = limited
    many, m = os.pwrite, iter(range(1 << 30))
    os.pwrite = lambda file, data, at: limited(file, data)

cw.copy(folder + "/source.zarr", folder + "/warm.zarr", **copied)  # loads libraries
{"memory": memory, "threads": threads, "descriptors": descriptors, "space": space}[short]()
try:
    found = steps[work]()
except BaseException as e:
    print(json.dumps([type(e).__name__, str(e)[:300]]), flush=True)
    os._exit(1)
if work == "read":
    assert (found == values).all()
os._exit(0)
"""
_WORK = ("open", "read", "write", "copy")
_SHORT = {
    "memory": ("memory", "Memory"),
    "threads": ("thread",),
    "descriptors": ("open files", "descriptor"),
    "space": ("space",),
}
_SECONDS = 60


def shortages(folder: Path, n_steps: int) -> dict[str, Any]:
    """Run each piece of work with each shortage; return how often what happened, and what must not."""
    values = np.arange(64 * 64 * 64, dtype="u2").reshape(64, 64, 64)
    old = np.full((8, 8), 7, "u2")
    template = folder / "template"
    cw.create_array(template / "source.zarr", values, chunks=(1, 64, 64))
    cw.create_array(template / "old.zarr", old)
    outcomes: dict[str, collections.Counter[str]] = {}
    failures: list[str] = []
    for short, words in _SHORT.items():
        for work in _WORK:
            counts = outcomes.setdefault(f"{work}, {short}", collections.Counter())
            for k in range(n_steps):
                place = folder / "place"
                shutil.copytree(template, place)
                case = f"{work}, {short} from step {k}"
                try:
                    ended = subprocess.run(
                        [sys.executable, "-c", _PROGRAM, json.dumps([work, short, k, str(place)])],
                        capture_output=True,
                        timeout=_SECONDS,
                        check=False,
                    )
                except subprocess.TimeoutExpired:
                    counts["hangs"] += 1
                    failures.append(f"{case}: still running after {_SECONDS} s")
                    shutil.rmtree(place)
                    continue
                told = ended.stdout.decode() + ended.stderr.decode()[-300:]
                counts["done" if ended.returncode == 0 else "error"] += 1
                if ended.returncode not in (0, 1):
                    failures.append(f"{case}: exit {ended.returncode}: {told}")
                elif ended.returncode and not any(word in told for word in words):
                    failures.append(f"{case}: an error that doesn't say what was short: {told}")
                found = cw.read(place / "old.zarr")
                if not (np.array_equal(found, old) or np.array_equal(found, values)):
                    failures.append(f"{case}: what is stored is neither old nor new")
                shutil.rmtree(place)
    return {"outcomes": {name: dict(counts) for name, counts in outcomes.items()}, "failures": failures}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40, help="how many steps each shortage begins at")
    parser.add_argument("--folder", help="where to work; by default a temporary folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as where:
        found = shortages(Path(where), given.steps)
    print(json.dumps(found, indent=2))
    sys.exit(1 if found["failures"] else 0)
