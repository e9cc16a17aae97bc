"""Interrupting a function at each of the places where Python raises what a signal handler raises.

Those are, in the thread that has the signals: the return of a call, the beginning of a function, and the
end of a loop's turn. In none of them the next operation has been done, such as giving the result a name.

Where a call is the last one that an ``except`` or ``finally`` covers, tracing would raise behind what is
covered, which a signal handler does not: such places are left out.  So are those in a ``__del__``, of which
Python prints what is raised.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any

_PLACES = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")


class Interrupted(BaseException):
    """The interruption; it is no Exception, as KeyboardInterrupt is none."""


class _Tracer:
    def __init__(self, at: int) -> None:
        self.left = at
        self.where: str | None = None
        self._passed: dict[int, int] = {}  # by the identity of frames, which must not be kept alive

    def start(self, frame: FrameType, event: str, _: Any) -> Any:
        if "/chunkwise/" not in frame.f_code.co_filename or _is_in_finalizer(frame):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self.follow

    def follow(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._passed.pop(id(frame), None)
        elif event == "opcode":
            places, now = _places(frame.f_code), frame.f_lasti
            passed = self._passed.get(id(frame))
            if passed is not None and places.handler(passed) == places.handler(now):
                self.left -= 1
                if self.left < 0 and self.where is None:
                    self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    raise Interrupted(self.where)
            if now in places.offsets:
                self._passed[id(frame)] = now
            else:
                self._passed.pop(id(frame), None)
        return self.follow


def _is_in_finalizer(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class _Places:
    """Places at which a function can be interrupted."""

    def __init__(self, code: Any) -> None:
        bytecode = dis.Bytecode(code)
        self.offsets = frozenset(i.offset for i in bytecode if i.opname.startswith(_PLACES))
        self._table = [(e.start, e.end, e.target) for e in bytecode.exception_entries]

    def handler(self, offset: int) -> int | None:
        """Return where an exception at an instruction is handled, None if it isn't."""
        for start, end, target in self._table:
            if start <= offset < end:
                return target
        return None


_places = cache(_Places)


def interrupt(function: Callable[[], object], at: int) -> str | None:
    """Call `function` and interrupt it at place number `at`; return where that is, None if it has no more."""
    tracer = _Tracer(at)
    before = sys.gettrace()
    # Python 3.12 looks whether a frame wants opcodes at the moment when tracing is set.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(tracer.start)
    try:
        function()
    except Interrupted:
        pass
    finally:
        sys.settrace(before)
    return tracer.where
