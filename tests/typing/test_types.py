"""The public API as a type checker sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import chunkwise


def test_a_typical_program_and_plug_ins_pass_mypy_strict(tmp_path: Path) -> None:
    """One run for both, since most of it is spent on the package itself."""
    program = Path(__file__).with_name("public_api.py")
    plug_ins = Path(__file__).parents[1] / "plugin_project" / "src"
    source = Path(chunkwise.__file__).parent.parent
    # mypy looks into site-packages itself, where the package is once it is installed, and refuses to be told.
    paths = [plug_ins] if source.name == "site-packages" else [source, plug_ins]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--ignore-missing-imports"),
            *("--follow-imports=silent", f"--cache-dir={tmp_path}", str(program)),
            str(plug_ins),
        ],
        env={"MYPYPATH": ":".join(map(str, paths)), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(chunkwise.__file__).parent / "py.typed").exists()
