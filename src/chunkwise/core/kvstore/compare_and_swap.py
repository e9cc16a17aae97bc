"""Changes and reads in several steps, which are retried if another writer was faster, but not for ever.

A change reads a value and writes another on condition that the first is still there.  After a few lost
attempts there are pauses, which grow and are random, so that writers don't keep colliding.  If a server
refuses the generation that it itself reports, the cause is not another writer: the generation is the same
again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from chunkwise.core.kvstore.protocol import MOST_LOST, UNKNOWN_GENERATION, describe
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AbortedError, GenerationMismatchError, LostAnswerError, UnsafeWriteError

__all__ = ["Losses", "ReplacedError", "compare_and_swap", "while_replaced"]

T = TypeVar("T")


_AT_ONCE = 2  # attempts without a pause
_TOLD = 10  # attempts before a line in the log
_MOST_REFUSED = 8  # attempts in a row with one generation
_FIRST_PAUSE = 0.002  # seconds
_LONGEST_PAUSE, _LONGEST_REMOTE_PAUSE = 0.02, 1.0


class Losses:
    """Attempts at one change that were lost to other writers."""

    def __init__(self, describe: Callable[[], str], *, remote: bool = False) -> None:
        self._describe = describe  # returns the name of the changed value, for messages
        self._longest = _LONGEST_REMOTE_PAUSE if remote else _LONGEST_PAUSE
        self._n_lost = self._n_refused = 0
        self._before: bytes | None = None

    def add(self, generation: bytes | None) -> None:
        """Count an attempt conditional on a generation, and wait; raise if another is pointless."""
        self._n_lost += 1
        same = generation == self._before and generation != UNKNOWN_GENERATION
        self._n_refused = self._n_refused + 1 if same else 1
        self._before = generation
        if self._n_refused == _MOST_REFUSED:
            raise UnsafeWriteError(
                f"{self._describe()} can't be changed in part: its storage gave the same version "
                f"{_MOST_REFUSED} times, and refused each time to replace that version, as servers do whose "
                "ETags in answers to GET are not those that conditional writes compare; write whole values, "
                'or set "single_writer" in the kvstore if no other process writes'
            )
        if self._n_lost == MOST_LOST:
            raise GenerationMismatchError(
                f"{self._describe()} was changed by others {MOST_LOST} times; try again"
            )
        if self._n_lost == _TOLD:
            import logging

            log = logging.getLogger("chunkwise.retries")
            log.warning("%s was changed by others %d times meanwhile; going on", self._describe(), _TOLD)
        if self._n_lost > _AT_ONCE:
            import random

            pause = min(self._longest, _FIRST_PAUSE * 2.0 ** min(self._n_lost, 30))
            time.sleep(random.uniform(0.5, 1.0) * pause)


def compare_and_swap(
    store: object,
    key: str,
    attempt: Callable[[], bytes | None],
    *,
    idempotent: bool = False,
) -> None:
    """Call `attempt` until it returns None; otherwise it returns the generation that is no longer current.

    Parameters
    ----------
    store : object
        The store to change, which also provides traits, and the key's name for messages.
    key : str
    attempt : callable
        Reads, changes, and writes on condition of the generation that was read.
    idempotent : bool
        Whether the change may be made twice: if the response to a write was lost, and another writer has
        replaced the value, it is unknown whether the write was carried out.

    Raises
    ------
    GenerationMismatchError
        If others were faster `MOST_LOST` times.
    UnsafeWriteError
        If the store refuses the generation that it reports.
    """
    losses: Losses | None = None
    while True:
        try:
            lost = attempt()
        except LostAnswerError:
            if not idempotent:
                raise
            lost = UNKNOWN_GENERATION
        if lost is None:
            return
        if losses is None:
            is_remote = traits_of(store).request_concurrency is not None
            losses = Losses(partial(describe, store, key), remote=is_remote)
        losses.add(lost)


class ReplacedError(Exception):
    """A value was replaced between the steps of reading it."""


def while_replaced(store: object, key: str, attempt: Callable[[], T]) -> T:
    """Return the result of `attempt`, which is made again when it raises ReplacedError."""
    for _ in range(MOST_LOST):
        try:
            return attempt()
        except ReplacedError:
            continue
    raise AbortedError(f"{describe(store, key)} was replaced {MOST_LOST} times while it was read")
