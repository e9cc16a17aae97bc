"""Interrupting a function at each of the places where Python raises what a signal handler raises.

Those are, in the thread that has the signals: the return of a call, the beginning of a function, and the
end of a loop's turn. In none of them the next operation has been done, such as giving the result a name.

Where a call is the last one that an ``except`` or ``finally`` covers, tracing would raise behind what is
covered, which a signal handler does not: such places are left out.  So are those in a ``__del__``, and in a
generator that is closed, of which Python prints what is raised.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
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
            self.step(frame, frame.f_lasti)
        return self.follow

    def step(self, frame: FrameType, now: int) -> None:
        """Raise before an instruction if its frame has just passed the place that is looked for."""
        places = _places(frame.f_code)
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


class _Monitor(_Tracer):
    """The same by `sys.monitoring`: from Python 3.14 on, a frame that asks for opcodes may get none."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self._thread = threading.get_ident()
        self._closing: set[int] = set()

    def instruction(self, code: Any, offset: int) -> Any:
        if "/chunkwise/" not in code.co_filename:
            return sys.monitoring.DISABLE
        if threading.get_ident() == self._thread:
            frame = sys._getframe(1)
            if offset == _places(code).start:  # of a frame that may have the identity of an earlier one
                self._passed.pop(id(frame), None)
                self._closing.discard(id(frame))
            if id(frame) not in self._closing and not _is_in_finalizer(frame):
                self.step(frame, offset)

    def thrown(self, code: Any, offset: int, error: BaseException) -> None:
        if isinstance(error, GeneratorExit) and threading.get_ident() == self._thread:
            self._closing.add(id(sys._getframe(1)))

    def run(self, function: Callable[[], object]) -> None:
        monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
        monitoring.use_tool_id(tool, "interrupts")
        try:
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, self.instruction)
            monitoring.register_callback(tool, monitoring.events.PY_THROW, self.thrown)
            monitoring.restart_events()
            monitoring.set_events(tool, monitoring.events.INSTRUCTION | monitoring.events.PY_THROW)
            function()
        finally:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)


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
        names = {i.offset: i.opname for i in bytecode}
        self.offsets = frozenset(
            at
            for at, name in names.items()
            if name.startswith(_PLACES) and not name.endswith("_NO_INTERRUPT")
        )
        self.start = next((i.offset for i in bytecode if i.opname == "RESUME"), 0)
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
    if sys.version_info >= (3, 14):
        monitor = _Monitor(at)
        with suppress(Interrupted):
            monitor.run(function)
        return monitor.where
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
