"""Ctrl-C while a command is being loaded ends it without a traceback, as it does later.

The package is loaded before any code of the command runs, so this is the first thing that it loads.  It does
something only in a process that was started as the command; a program that uses the library keeps its
signals.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

__all__ = ["INTERRUPTED", "loaded"]

INTERRUPTED = 130
"""Exit status of a command that was interrupted."""


def loaded() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    if sys.argv[:1] == ["-m"]:  # the module is being looked for, and its package loaded
        words = sys.orig_argv[1:]
        module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        return module in ("chunkwise", "chunkwise.cli", "chunkwise.cli.main")
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return name.removesuffix(".exe").removesuffix("-script.py") == "chunkwise"


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"chunkwise: interrupted\n")
    os._exit(INTERRUPTED)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _leave)
