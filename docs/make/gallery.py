"""The gallery: complete programs, each run when the documentation is built, with the picture that it makes."""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "gallery"
_ORDER = [
    "chunk_map",
    "convert",
    "rechunk",
    "pyramid",
    "mosaic",
    "labels",
    "append",
    "writers",
    "function",
    "projection",
]


def page() -> str:
    """Return the page: title, text, picture and code of each program."""
    parts = [
        "# Gallery",
        "Ten complete programs. Each makes its own data, so it runs as it stands, in an empty folder; each picture was made by the "
        "program below it when this page was built. They need NumPy, Pillow and chunkwise.",
    ]
    for name in _ORDER:
        source = (PROGRAMS / f"{name}.py").read_text()
        title, text = (ast.get_docstring(ast.parse(source)) or "").split("\n\n", 1)
        code = source.split('"""\n\n', 1)[1]
        parts += [f"## {title}", text, f"![{title}](pictures/gallery/{name}.png)", f"```python\n{code}```"]
    return "\n\n".join(parts) + "\n"


def pictures() -> dict[str, bytes]:
    """Run the programs; return their pictures by path."""
    return {f"pictures/gallery/{name}.png": run(name) for name in _ORDER}


def run(name: str) -> bytes:
    """Run one program in an empty folder; return its picture."""
    with tempfile.TemporaryDirectory() as folder:
        program = [sys.executable, str(PROGRAMS / f"{name}.py")]
        done = subprocess.run(program, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"docs/gallery/{name}.py failed: {done.stderr}")
        return (Path(folder) / "picture.png").read_bytes()
