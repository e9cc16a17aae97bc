"""The gallery: complete programs, each with the picture that it makes when the documentation is built."""

from __future__ import annotations

import ast
import runpy
import tempfile
from contextlib import chdir
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "gallery"
_ORDER = ("chunk_map", "convert", "rechunk", "pyramid", "mosaic")
_ORDER += ("labels", "append", "writers", "function", "projection")


def page() -> str:
    """Return the page: title, text, picture and code of each program."""
    parts = [
        "# Gallery",
        "Ten complete programs. Each makes its own data, so you can run it in an empty folder. "
        "Each picture was made by its program when this page was built. "
        "They need NumPy, Pillow and chunkwise.",
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
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        runpy.run_path(str(PROGRAMS / f"{name}.py"))
        return Path("picture.png").read_bytes()
