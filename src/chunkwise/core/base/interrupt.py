"""Ctrl-C ends a command without a traceback, even while the command is being loaded.

The package imports this module first, before any code of the command runs.  It changes the signal handler
only in a process that was started as the command, not in programs that use the library.
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
    if sys.argv[:1] == ["-m"]:  # Python is importing the package to find the module
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
