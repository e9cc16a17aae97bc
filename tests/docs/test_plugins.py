"""The page on plugins runs as it is; codecs are found through entry points, by name and by format."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def _run(code: str, *paths: Path) -> str:
    """Run a program of its own, so that nothing stays registered here."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": ":".join(map(str, (ROOT / "src", *paths))), "PYTHONWARNINGS": "error"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example() -> None:
    """It is as short as it says, and does what it says."""
    plugin, use, data_type = CODE
    imports_and_call = ("import", "from", "codecs.register")
    lines = [line for line in plugin.splitlines() if line and not line.startswith(imports_and_call)]
    assert len(lines) <= 20
    promised = re.findall(r"print\(.*?\)\s+# (.*)", use + data_type)
    assert len(promised) == 2
    assert _run(plugin + use + data_type).splitlines() == promised


def test_a_published_codec(tmp_path: Path) -> None:
    """Installed and not imported; one name is known everywhere, the other in N5 only."""
    plugin, use, _ = CODE
    register = 'codecs.register("squeeze", Squeeze)\n'
    assert register in plugin
    pinch = "\nclass Pinch(Squeeze):\n    name = 'pinch'\n"
    (tmp_path / "my_package.py").write_text(plugin.replace(register, "") + pinch)
    published = re.search(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert published is not None
    _, *lines = published[1].splitlines()
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chunkwise.codecs]\n" + "\n".join(lines).replace('"', "") + "\n")
    check = """
import json
spec = {"driver": "n5", "kvstore": "memory://p/", "metadata": {"compression": {"type": "pinch", "preset": 2}}}
context = chunkwise.Context()
store = chunkwise.open(spec, create=True, dtype="uint8", shape=[9], context=context).result()
store[...] = 5
again = chunkwise.open({"driver": "n5", "kvstore": "memory://p/"}, context=context).result()
print(again.read().result().tolist(), again.codec.to_json()["compression"])
print(json.loads(again.kvstore["attributes.json"])["compression"])
try:
    chunkwise.open(
        {"driver": "zarr", "kvstore": "memory://q/", "metadata": {"compressor": {"id": "pinch"}}},
        create=True, dtype="uint8", shape=[9],
    ).result()
except ValueError as e:
    print("pinch" in str(e) and "not registered" in str(e))
try:
    spec["metadata"]["compression"]["colour"] = 1
    chunkwise.open(spec, create=True, dtype="uint8", shape=[9]).result()
except ValueError as e:
    print("colour" in str(e))
"""
    out = _run(use + check, tmp_path).splitlines()
    assert out == [
        "[0 0 7 0]",
        "[5, 5, 5, 5, 5, 5, 5, 5, 5] {'type': 'pinch', 'preset': 2}",
        "{'preset': 2, 'type': 'pinch'}",
        "True",
        "True",
    ]
