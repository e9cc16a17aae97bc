"""Doing a job together with helper processes.

One thread of this process does pieces of the job from its front, and hands pieces from its end to the
helpers; it copies what they have read, or are to write, between two pieces of its own.  Whatever a helper
has not done, because it failed, ended or was never able to, is done here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.execute.helper.helpers import late_helpers
from chunkwise.execute.helper.process import N_SLOTS, SLOT_NBYTES, HelperGoneError, HelperProcess
from chunkwise.execute.pool import Stop
from chunkwise.execute.result_memory import pages_of

__all__ = ["Conductor", "Work"]

Work: TypeAlias = Callable[[Any], None]

# In bytes of elements: what is given to a helper at a time, and done here between two looks at the helpers.
_PIECE = 1 << 22
_OWN_PIECE = 1 << 20
# A small read has that many pieces, none of them smaller than this: each takes some 100 µs to hand over.
_N_PIECES = 16
_LEAST_PIECE = 1 << 18
# How often to look for helpers that are starting, in seconds.
_LOOK = 0.03


class _Piece(Protocol):
    """A part of a job as a helper gets it: all of it, and what is to be done here nevertheless."""

    @property
    def work(self) -> Any: ...
    @property
    def rest(self) -> Any: ...


class _Job(Protocol):
    """What :class:`Job` and :class:`BoxJob` have in common; a piece that helpers can't do is None."""

    @property
    def do(self) -> str: ...
    @property
    def view(self) -> npt.NDArray[Any]: ...
    def description(self) -> dict[str, Any]: ...
    def split(self, work: Any, n: int) -> Sequence[Any]: ...
    def nbytes(self, work: Any) -> int: ...
    def piece(self, work: Any) -> Any: ...
    def message(self, piece: Any) -> dict[str, Any]: ...
    def fill(self, slot: npt.NDArray[np.uint8], piece: Any) -> None: ...
    def empty(self, slot: npt.NDArray[np.uint8], piece: Any) -> None: ...


class Conductor:
    """A worker that does a batch together with helpers.

    It looks after them between pieces of its own share.  A thread for each helper would wait for the
    interpreter lock, which the thread that works gives up for moments only.
    """

    def __init__(
        self,
        job: _Job,
        helpers: list[HelperProcess],
        n_late: int,
        local: Callable[[Any], object],
        stop: Sequence[object],
    ) -> None:
        self._job = job
        self._helpers = helpers
        self._n_late = n_late
        self._look_at = 0.0
        self._local = local
        self._stop = stop
        self._own: deque[Any] = deque()  # which no helper can do

    def work(self, batch: Any) -> None:
        """Do a batch."""
        job = self._job
        nbytes = job.nbytes(batch)
        size = min(_PIECE, max(_LEAST_PIECE, nbytes // _N_PIECES)) if job.do == "read" else _PIECE
        todo, own = deque(job.split(batch, -(-nbytes // size))), self._own
        hands = [_Hand(helper, job) for helper in self._helpers if helper.lock.acquire(blocking=False)]
        # All that is read passes through this thread, so another one sees to the memory.
        pages = pages_of(job.view) if hands and job.do == "read" else None
        ahead: Thread | None = None
        done: Stop = []
        try:
            for hand in hands:
                self._look_after(hand, todo)
            if pages is not None:
                ahead = Thread(target=pages.ask_for_all, args=(done,), name="chunkwise", daemon=True)
                ahead.start()
            while (own or todo) and not self._stop:
                piece = (own or todo).popleft()
                for part in job.split(piece, -(-job.nbytes(piece) // _OWN_PIECE)):
                    if self._stop:
                        return
                    self._local(part)
                    if self._n_late > 0:
                        self._look_for_more(hands)
                    for hand in hands:
                        self._look_after(hand, todo)
            for hand in hands:
                while hand.asked:
                    self._settle(hand, wait=True)
        finally:
            done.append(None)
            for hand in hands:
                hand.release()
            if ahead is not None and ahead.ident is not None:
                ahead.join()

    def _look_for_more(self, hands: list[_Hand]) -> None:
        """Take helpers that have got ready meanwhile."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK
        for helper in late_helpers()[: self._n_late]:
            if helper.lock.acquire(blocking=False):
                self._n_late -= 1
                self._helpers.append(helper)
                hands.append(_Hand(helper, self._job))

    def _look_after(self, hand: _Hand, todo: deque[Any]) -> None:
        """Take what a helper has done, and give it more."""
        while hand.asked and self._settle(hand, wait=False):
            pass
        # Towards the end nothing is given in advance: it would be waited for.
        while (
            hand.slots
            and (len(todo) > len(self._helpers) if hand.asked else todo)
            and not hand.gone
            and self._job.nbytes(todo[-1]) <= SLOT_NBYTES
        ):
            piece = self._job.piece(todo[-1])
            if piece is None:
                self._own.append(todo.pop())
            elif hand.ask(piece):
                todo.pop()

    def _settle(self, hand: _Hand, *, wait: bool) -> bool:
        """Take the oldest piece from a helper; return whether it has got so far."""
        done = hand.answer(wait=wait)
        if done is None:
            return False
        piece, slot = hand.asked.popleft()
        if not done:
            if not self._stop:
                self._local(piece.work)
        elif self._job.do == "read":
            self._job.empty(hand.slot(slot, piece), piece)
            if piece.rest is not None and not self._stop:
                self._local(piece.rest)
        hand.slots.append(slot)
        return True


class _Hand:
    """A helper in the service of a job.

    Attributes
    ----------
    slots : deque of int
        Slots that are free.
    asked : deque of (piece, int)
        What it is to do, each with its slot.
    gone : bool
        Whether it has ended.
    """

    def __init__(self, helper: HelperProcess, job: _Job) -> None:
        self._helper = helper
        self._job = job
        self.slots = deque(range(N_SLOTS))
        self.asked: deque[tuple[_Piece, int]] = deque()
        self.gone = False
        self._send(job.description())

    def ask(self, piece: _Piece) -> bool:
        """Have a piece done; return False if there is nobody to do it."""
        slot = self.slots[0]
        if self._job.do == "write":
            self._job.fill(self.slot(slot, piece), piece)
        self._send({**self._job.message(piece), "slot": slot})
        if not self.gone:
            self.asked.append((piece, self.slots.popleft()))
        return not self.gone

    def answer(self, *, wait: bool) -> bool | None:
        """Return whether the oldest piece is done; None if it may be yet, False if it never will."""
        try:
            return not self.gone and self._helper.answer(wait=wait)
        except HelperGoneError:
            self.gone = True
            return False

    def slot(self, number: int, piece: _Piece) -> Any:
        """Return the bytes of a slot that a piece takes."""
        return self._helper.slot(number, self._job.nbytes(piece.work))

    def release(self) -> None:
        """Wait for what is under way, and leave the helper to others."""
        while self.asked and not self.gone:
            self.answer(wait=True)
            self.asked.popleft()
        self._helper.lock.release()

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._helper.send(message)
        except HelperGoneError:
            self.gone = True
