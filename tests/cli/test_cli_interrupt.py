"""Ctrl-C while a command is being loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_process import Children

# Loaded by the package, and waits to be interrupted.
SLOW = """
import os, time
open(os.environ["LOADING"], "w").close()
while True:
    try:
        time.sleep(0.05)  # short: a signal just before it would wait for its end
    except KeyboardInterrupt:
        raise ImportError("interrupted") from None
"""
SCRIPT = "import sys\nfrom chunkwise.cli.main import main\nsys.exit(main())\n"


@pytest.mark.parametrize("way", ["module", "submodule", "script", "library"])
def test_it_ends_the_command_without_a_traceback(children: Children, tmp_path: Path, way: str) -> None:
    """A program that uses the library gets what Python gives it."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "numcodecs.py").write_text(SLOW)
    (tmp_path / "path" / "numpy.py").write_text(SLOW)
    for name in ("chunkwise", "library"):
        (tmp_path / name).write_text(SCRIPT)
    loading = tmp_path / "loading"
    command = {
        "module": ["-m", "chunkwise", "info", "x"],
        "submodule": ["-m", "chunkwise.cli", "info", "x"],
        "script": [str(tmp_path / "chunkwise"), "info", "x"],
        "library": [str(tmp_path / "library"), "info", "x"],
    }[way]
    path = os.pathsep.join([str(tmp_path / "path"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "LOADING": str(loading)}
    process = children.start([sys.executable, *command], env=environment, stderr=subprocess.PIPE, text=True)
    while not loading.exists() and process.poll() is None:
        pass
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    if way == "library":
        assert "Traceback" in err
    else:
        assert (process.returncode, err) == (130, "chunkwise: interrupted\n")
