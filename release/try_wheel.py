"""Try the built package as a new user would: the README's examples with each Python that is found.

python release/try_wheel.py [--wheel WHEEL] [PYTHON ...]

Builds the wheel unless one is given, installs it into a new environment for each Python, and runs the
examples there with warnings as errors. pip has to refuse a Python that is too old. PYTHON is a command or a
path; without any, all `python3.N` on PATH and the versions of pyenv are tried.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
VERSION = "import sys; print(*sys.version_info[:3], sep='.')"


def run(*command: object, **options: object) -> str:
    """Return what a command prints; end with an error if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(
            f"not ready: {shlex.join(words)} ended with {done.returncode}\n{done.stderr[-4000:]}"
        )
    return str(done.stdout)


def find_pythons() -> list[str]:
    """Return the Pythons of this machine, one of each minor version."""
    places = [f"python3.{minor}" for minor in range(8, 20)]
    for directory in sorted(Path.home().glob(".pyenv/versions/3.*")):
        places.append(str(directory / "bin" / "python"))
    found = {}
    for place in places:
        path = shutil.which(place)
        if path and not Path(path).parent.match(".pyenv/shims"):
            found.setdefault(run(path, "-c", VERSION).rpartition(".")[0], path)
    return list(found.values())


def blocks(language: str) -> list[str]:
    """Return the code blocks of the README in a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def try_wheel(python: str, wheel: Path, requirement: str, directory: Path) -> str:
    """Install the wheel in a new environment and run the examples; return what was found."""
    version = run(python, "-c", VERSION).strip()
    run(python, "-m", "venv", directory / "venv")
    scripts = directory / "venv" / ("Scripts" if os.name == "nt" else "bin")
    install = [scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if tuple(map(int, version.split("."))) < tuple(map(int, requirement.removeprefix(">=").split("."))):
        done = subprocess.run([*install, "--no-deps", wheel], capture_output=True, text=True, env=ENVIRONMENT)
        reasons = [line for line in done.stderr.splitlines() if requirement in line]
        if not done.returncode or not reasons:
            raise SystemExit(f"not ready: what pip says with Python {version}\n{done.stderr}")
        return f"{version}: {reasons[0]}"
    run(*install, f"{wheel}[cli]")
    work = directory / "work"
    work.mkdir()
    code = "\n".join(blocks("python"))
    promised = re.findall(r"print\(.*?\)\s+# (.*)", code)
    where = "import chunkwise; assert 'site-packages' in chunkwise.__file__, chunkwise.__file__\n"
    printed = run(scripts / "python", "-W", "error", "-c", where + code, cwd=work).splitlines()
    if printed != promised:
        raise SystemExit(f"not ready: Python {version} prints {printed}, the README says {promised}")
    commands = [shlex.split(line.removeprefix("$ ")) for line in "".join(blocks("console")).splitlines()]
    for name, *words in commands:
        run(scripts / name, *words, cwd=work)
    run(scripts / "python", "-m", "chunkwise", "--version", cwd=work)
    return f"{version}: {len(promised)} printed lines and {len(commands)} commands of the README are right"


def main() -> None:
    """Try the wheel with each Python."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the wheel to try")
    parser.add_argument("python", nargs="*", help="commands or paths of Pythons")
    arguments = parser.parse_args()
    requirement = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    with tempfile.TemporaryDirectory() as directory:
        wheel = arguments.wheel
        if wheel is None:
            run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, ROOT)
            (wheel,) = Path(directory).glob("*.whl")
        for number, python in enumerate(arguments.python or find_pythons()):
            place = Path(directory, str(number))
            place.mkdir()
            print(try_wheel(python, wheel.resolve(), requirement, place), flush=True)


if __name__ == "__main__":
    main()
