"""Turns at the processors, for workers of which there are more than processors because they wait for a store.

Workers that begin together would encode together, end together, and then all wait for the disk with nobody
encoding.  In turns the first chunk is on its way when the next ones are encoded, and memory that is worked
on stays in the caches: writing 128³ chunks of uint16 to a disk with Blosc takes nine tenths of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

__all__ = ["Turns", "in_turn", "open_turns"]

A = TypeVar("A")
B = TypeVar("B")

Turns: TypeAlias = "SimpleQueue[None]"
"""Has an item for each worker that may go on."""


def open_turns(n_workers: int, n_processors: int) -> Turns | None:
    """Return turns for a job, or None if all of its workers may work at any time."""
    n = n_processors + 1  # one may wait for the interpreter lock
    if n_workers <= n:
        return None
    turns: Turns = SimpleQueue()
    for _ in range(n):
        turns.put(None)
    return turns


def in_turn(do: Callable[[A], B], turns: Turns | None) -> Callable[[A], B]:
    """Return a function that waits for a turn, does it, and lets the next one have its turn."""
    if turns is None:
        return do

    def wait_and_do(what: A) -> B:
        turns.get()
        try:
            return do(what)
        finally:
            turns.put(None)

    return wait_and_do
