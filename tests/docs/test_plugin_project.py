"""The project of a third party: it uses the door for plug-ins, has entry points, and passes the suites."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import chunkwise
import chunkwise.extension

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "tests" / "plugin_project"
PAGE = (ROOT / "docs" / "plugins.md").read_text()
MODULES = sorted((PROJECT / "src" / "chunkwise_squeeze").glob("*.py"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a process in which the project is installed."""
    place = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    info = place / "chunkwise_squeeze-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chunkwise-squeeze\nVersion: 1.0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    paths = (ROOT / "src", PROJECT / "src", place)
    return {"PYTHONPATH": ":".join(map(str, paths)), "PYTHONWARNINGS": "error", "PATH": "/usr/bin:/bin"}


def run(installed: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, env=installed, cwd=PROJECT
    )


def test_it_passes_the_suites(installed: dict[str, str], tmp_path: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", f"{tmp_path}/t"]
    done = run(installed, "-m", "pytest", *options, "tests")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "[100%]" in done.stdout


def test_its_command(installed: dict[str, str], tmp_path: Path) -> None:
    group = chunkwise.create_group(tmp_path / "g")
    group.create_array("a/b", shape=[3, 4], dtype="uint8")
    command = ("-m", "chunkwise", "shapes", str(tmp_path / "g"))
    assert run(installed, *command).stdout == "a/b  [3, 4]\n"
    assert json.loads(run(installed, *command, "--json").stdout) == {"a/b": [3, 4]}
    for words in (["--help"], ["help"], []):
        assert "print the shape of every array" in run(installed, "-m", "chunkwise", *words).stdout, words
    wrong = run(installed, *command, "--wrong")
    assert wrong.returncode == 2 and "shapes" in wrong.stderr and "--wrong" in wrong.stderr


def test_a_short_form(installed: dict[str, str], tmp_path: Path) -> None:
    """A codec of a plug-in is named as briefly as one of the package, with its first option."""
    for codec in ("squeeze", "squeeze:2"):
        path = tmp_path / codec.replace(":", "-")
        words = [
            "create",
            str(path),
            "--shape",
            "8",
            "--dtype",
            "uint8",
            "--format",
            "zarr3",
            "--codec",
            codec,
        ]
        done = run(installed, "-m", "chunkwise", *words)
        assert done.returncode == 0, done.stderr
        stored = json.loads((path / "zarr.json").read_text())["codecs"][-1]
        assert stored == {"name": "squeeze", "configuration": {"preset": 2 if ":" in codec else 1}}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_only_the_door_is_used(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            assert not name.startswith("chunkwise.") or name == "chunkwise.extension", (
                f"{module.name}: {name}"
            )


@pytest.mark.parametrize("name", ["codec", "store", "data_type", "shapes"])
def test_the_page_shows_the_project(name: str) -> None:
    assert (PROJECT / "src" / "chunkwise_squeeze" / f"{name}.py").read_text().strip() in PAGE


def test_the_page_shows_how_to_use_it(installed: dict[str, str]) -> None:
    assert (PROJECT / "pyproject.toml").read_text().strip() in PAGE
    use = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "print(" in code)
    promised = re.findall(r"print\(.*?\)\s+# (.*)", use)
    done = run(installed, "-c", use)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised and len(promised) == 1


def test_a_name_of_one_format(tmp_path: Path, installed: dict[str, str]) -> None:
    """``n5:pinch`` is known in N5 and nowhere else."""
    info = tmp_path / "pinch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pinch\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[chunkwise.codecs]\nn5:pinch = pinch:Pinch\n")
    (tmp_path / "pinch.py").write_text(
        "from chunkwise_squeeze.codec import Squeeze\nclass Pinch(Squeeze):\n    name = 'pinch'\n"
    )
    program = """
import chunkwise, json
context = chunkwise.Context()
def make(driver, metadata, path="q"):
    spec = {"driver": driver, "kvstore": f"memory://{path}/", "metadata": metadata}
    return chunkwise.open(spec, create=True, dtype="uint8", shape=[9], context=context).result()
store = make("n5", {"compression": {"type": "pinch", "preset": 2}}, "p")
store[...] = 5
again = chunkwise.open({"driver": "n5", "kvstore": "memory://p/"}, context=context).result()
print(again.read().result().tolist())
print(json.loads(store.kvstore["attributes.json"])["compression"])
try:
    make("zarr", {"compressor": {"id": "pinch"}})
except ValueError as e:
    print("pinch" in str(e) and "not registered" in str(e))
try:
    make("n5", {"compression": {"type": "pinch", "preset": 2, "colour": 1}})
except ValueError as e:
    print("colour" in str(e))
"""
    done = run({**installed, "PYTHONPATH": f"{installed['PYTHONPATH']}:{tmp_path}"}, "-c", program)
    assert done.stdout.splitlines() == [str([5] * 9), "{'preset': 2, 'type': 'pinch'}", "True", "True"], (
        done.stderr
    )


def test_the_door_is_a_promise() -> None:
    """What it has doesn't go; what comes is written down here."""
    known = Path(__file__).with_name("extension_names.txt").read_text().split()
    assert sorted(chunkwise.extension.__all__) == known
    assert len(known) <= 60


def test_what_a_store_lacks_is_named() -> None:
    class Half:
        def read(self, key: str) -> None: ...

        def write(self, key: str, value: bytes) -> None: ...

    with pytest.raises(ValueError, match=r"lacks .*delete.*list_children.*PluginStore"):
        chunkwise.KvStore.open({"driver": "object", "object": Half()}).result()
    with pytest.raises(TypeError, match="put"):
        type("Empty", (chunkwise.extension.PluginStore,), {})()
