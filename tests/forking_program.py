"""Forks at random moments while threads read and write, and has each child use what they use.

Arguments: the spec of an array of shape (32, 32) and uint8 that is there, what is done (``write``, ``read``
or ``transaction``), the number of forks.  Exit status 0: all children did it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import threading
import time
from typing import Any

import numpy as np

import chunkwise as ts

SHAPE = (32, 32)


def use(array: Any, choose: random.Random, writes: bool, n: int) -> None:
    """Read, and perhaps write, parts of one chunk, of several and all."""
    for _ in range(n):
        size = choose.choice([1, 3, 8, 20, 32])
        y, x = (choose.randrange(SHAPE[0] - size + 1) for _ in range(2))
        part = array[y : y + size, x : x + size]
        if not writes or choose.random() < 0.5:
            part.read().result()
        else:
            part.write(np.full((size, size), choose.randrange(1, 9), "u1")).result()


def use_for_ever(array: Any, writes: bool, seed: int) -> None:
    """Be the load."""
    choose = random.Random(seed)
    while True:
        use(array, choose, writes, 1)


def child_of_fork(spec: Any, array: Any, writes: bool, seed: int) -> None:
    """Use the array, open it anew, and end without unwinding."""
    faulthandler.dump_traceback_later(40, exit=True)
    code = 1
    try:
        use(array, random.Random(seed), writes, 5)
        ts.open(spec).result()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(spec: Any, action: str, n_forks: int) -> int:
    """Return the exit status of the first child that failed, 0 if none did."""
    array = ts.open(spec).result()
    if action == "transaction":
        array = array.with_transaction(ts.Transaction())
    writes = action != "read"
    use(
        array, random.Random(0), writes, 30
    )  # libraries are loaded: Python's own locks of imports stay locked
    for seed in range(3):
        threading.Thread(target=use_for_ever, args=(array, writes, seed), daemon=True).start()
    choose = random.Random(n_forks)
    for seed in range(n_forks):
        time.sleep(choose.random() * 0.02)
        pid = os.fork()
        if pid == 0:
            child_of_fork(spec, array, writes, seed)
        if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            return abs(status)
    return 0


if __name__ == "__main__":
    code = main(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    os._exit(code)  # the load goes on
