"""Simulation of a copy of 10^9 chunks with dying workers and slow tasks: ``simulate.py``.

The driver, the plan and the ranges of the journal are real; workers and time are simulated, so nothing here
depends on other load.  The events are those of a queue of workers:

* each worker dies after an exponentially distributed time, and is replaced a minute later;
* a share of the tasks takes ten times as long.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import resource

from chunkwise.copying.copy_plan import Grid, plan_blocks
from chunkwise.copying.journal_document import Ranges
from chunkwise.core.index_space import IndexDomain

BATCH_SECONDS, WINDOW = 30.0, 2


def plan_of_a_billion_chunks() -> tuple[int, int, int]:
    """Return the bytes of the plan as JSON, its tasks and its passes."""
    domain = IndexDomain(shape=[64_000, 64_000, 64_000])
    plan = plan_blocks(
        domain, 2, Grid((1, 64_000, 64), (0, 0, 0)), Grid((64, 64, 64), (0, 0, 0)), memory=2 << 30
    )
    return len(json.dumps(plan.to_json())), plan.n_tasks, len(plan.passes)


def simulate(n_tasks: int, n_workers: int, seconds: float, life: float, slow: float) -> dict[str, float]:
    """Return the time divided by the ideal time, and the largest number of ranges of the journal."""
    r = random.Random(0)
    done, todo = Ranges(), [(0, n_tasks)]
    largest: list[tuple[int, int]] = []
    events: list[tuple[float, int, int, int, bool]] = []
    dies = [r.expovariate(1 / life) for _ in range(n_workers)]
    n_left, most, now, busy = n_tasks, 0, 0.0, 0

    def take(worker: int) -> bool:
        nonlocal n_left
        if not todo:
            return False
        size = max(1, min(-(-n_left // (2 * WINDOW * n_workers)), int(BATCH_SECONDS / seconds)))
        start, stop = todo.pop()
        if stop - start > size:
            todo.append((start + size, stop))
            stop = start + size
        n_left -= stop - start
        n_slow = sum(r.random() < slow for _ in range(stop - start))
        end = now + seconds * (stop - start + 9 * n_slow)
        lost = end > dies[worker]
        heapq.heappush(events, (min(end, dies[worker]), worker, start, stop, lost))
        return True

    for worker in range(n_workers):
        busy += take(worker)
    idle: list[int] = []
    while events:
        now, worker, start, stop, lost = heapq.heappop(events)
        if lost:
            dies[worker] = now + 60 + r.expovariate(1 / life)
            todo.append((start, stop))
            n_left += stop - start
            heapq.heappush(events, (now + 60, worker, 0, 0, False))
        elif stop:
            done.add(start, stop)
            if (n_ranges := sum(1 for _ in done)) > most:
                most, largest = n_ranges, list(done)
        for each in [] if lost else [worker, *idle]:
            if each in idle:
                idle.remove(each)
            if not take(each):
                idle.append(each)
    assert list(done) == [(0, n_tasks)]
    ideal = n_tasks * seconds * (1 + 9 * slow) / n_workers
    return {
        "hours": now / 3600,
        "times the ideal": now / ideal,
        "ranges of the journal": most,
        "bytes of them": len(json.dumps([list(each) for each in largest], indent=2)),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=1000)
    arguments = parser.parse_args()
    nbytes, n_tasks, n_passes = plan_of_a_billion_chunks()
    print(f"plan of 10^9 chunks: {nbytes:,} bytes, {n_tasks:,} tasks, {n_passes} passes")
    found = simulate(arguments.tasks, arguments.workers, 5.0, 7200.0, 0.005)
    print(", ".join(f"{name}: {value:,.3f}" for name, value in found.items()))
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
