"""Interrupting a function at each of the places where Python raises what a signal handler raises.

Those are, in the thread that has the signals: the return of a call, the beginning of a function, and the
end of a loop's turn. In none of them the next operation has been done, such as giving the result a name.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_PLACES = ("CALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD")


class Interrupted(BaseException):
    """What is raised; it is no Exception, as KeyboardInterrupt is none."""


class _Tracer:
    def __init__(self, at: int) -> None:
        self.left = at
        self._passed: dict[FrameType, bool] = {}
        self._places: dict[Any, frozenset[int]] = {}

    def start(self, frame: FrameType, event: str, _: Any) -> Any:
        if "/chunkwise/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self.follow

    def follow(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._passed.pop(frame, None)
        elif event == "opcode":
            if self._passed.get(frame):
                self.left -= 1
                if self.left < 0:
                    raise Interrupted(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            self._passed[frame] = frame.f_lasti in self._places_of(frame)
        return self.follow

    def _places_of(self, frame: FrameType) -> frozenset[int]:
        code = frame.f_code
        found = self._places.get(code)
        if found is None:
            found = self._places[code] = frozenset(
                i.offset for i in dis.get_instructions(code) if i.opname.startswith(_PLACES)
            )
        return found


def interrupt(function: Callable[[], object], at: int) -> str | None:
    """Call `function` and interrupt it at place number `at`; return where that is, None if it has no more."""
    tracer = _Tracer(at)
    before = sys.gettrace()
    sys.settrace(tracer.start)
    try:
        function()
    except Interrupted as e:
        return str(e)
    finally:
        sys.settrace(before)
    return None
