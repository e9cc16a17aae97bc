"""Run the tests with the lowest versions that pyproject.toml allows, or with the newest that there are.

python release/versions.py {lowest,newest} [--python PYTHON] [--tests PATH ...] [--workers N]
                           [--quick]

Makes an environment in build/lowest or build/newest with every extra and the packages of the tests. For the
lowest, direct requirements have their stated minimum; everything else is the newest that goes with them.
After the default tests have passed, the versions are written to release/versions.json. The newest are run
with Debian's CPython 3.14 (release/interpreter.py) as root on Debian, unless an interpreter is named.
``--quick`` runs what takes less than two minutes: arrays, shards, checksums, xarray, NWB. The status is 69 if
the environment can't be made, as without an index, and pytest's otherwise. Needs requirements-release.txt.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from interpreter import inside, make_root
from uv import find_uv_bin

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "release" / "versions.json"
CORE = tuple(
    f"tests/{name}"
    for name in (
        "api", "chunk_key", "codec", "drivers", "dtypes", "engine", "grid", "image", "index_space", "interop",
        "kvstore", "ocdbt", "parity", "plan", "precomputed", "specs", "trees", "virtual",
    )
)  # fmt: skip
EXTRAS = (
    "tests/xarray",
    "tests/dask",
    "tests/bridges/test_zarr_pipeline.py",
    "tests/bridges/test_store_objects.py",
    "tests/hdmf/test_nwb_round_trip.py",
)

QUICK = (
    "tests/api/test_public_names.py",
    "tests/codec/test_codec_contracts.py",
    "tests/engine/test_shards.py",
    "tests/engine/test_read_write.py",
    "tests/kvstore/test_sharded_contract.py",
    "tests/xarray/test_xarray_read.py",
    "tests/hdmf/test_nwb_round_trip.py",
)
DEBIAN = "3.14"
NOT_MADE = 69  # EX_UNAVAILABLE of sysexits.h

# TensorStore treats nested lists, and names types in messages, as a newer NumPy does.  Sessions and
# manifests are of packages that need more, and so are references that kerchunk makes.
NEWEST_ONLY = (
    "--ignore=tests/dtypes/test_as_array.py",
    "--deselect=tests/parity/test_calls.py::test_calls_do_what_they_do_in_tensorstore[dtype_unit]",
    "--deselect=tests/bridges/test_store_objects.py::test_a_session_of_icechunk",
    "--deselect=tests/bridges/test_store_objects.py::test_manifests_of_virtualizarr",
    "--deselect=tests/api/test_habits_of_neighbours.py::test_what_opens_what_references_are_about",
    "--deselect=tests/api/test_habits_of_neighbours.py::test_commands_take_what_references_are_about",
    "--deselect=tests/api/test_habits_of_neighbours.py::test_a_path_into_references_is_an_error_that_names_them",
)

# What peers of that age need, and don't ask for: a package for their own crc32c, and no pandas 3.
FOR_OLD_PEERS = ("numcodecs[crc32c]", "pandas<3")

# Peers that need newer packages than the lowest; nothing in the tests above needs them then.
TOO_NEW = ("hdmf", "pynwb", "icechunk", "virtualizarr", "kerchunk", "npe2")


def run(*command: object, root: Path | None = None, timeout: float | None = None) -> int:
    """Run a command, in another root if one is given, and return its status."""
    words = [str(word) for word in command]
    print("$", *words, flush=True)
    environment = {**os.environ, "PATH": f"{Path(words[0]).parent}{os.pathsep}{os.environ['PATH']}"}
    told = words if root is None else inside(root, words, ROOT)
    try:
        return subprocess.run(told, cwd=ROOT, env=environment, timeout=timeout).returncode
    except subprocess.TimeoutExpired:
        print(f"ended after {timeout} s", file=sys.stderr)
        return 1


def prepare(*command: object, root: Path | None) -> None:
    """Run a command that makes the environment; exit with the status for that if it fails."""
    if run(*command, root=root, timeout=600):
        print("NOT TESTED: the environment can't be made", file=sys.stderr)
        raise SystemExit(NOT_MADE)


def name_of(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    return re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-")


def direct_names() -> set[str]:
    """Return the names of all packages that pyproject.toml requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return {name_of(r) for group in (project["dependencies"], *extras) for r in group} - {"chunkwise"}


def compiled(output: Path, *arguments: object, root: Path | None) -> dict[str, str]:
    """Return the versions that uv chooses, by name."""
    prepare(find_uv_bin(), "pip", "compile", "--quiet", "-o", output, *arguments, root=root)
    found = re.findall(r"^([\w.-]+)==(\S+)", output.read_text(), flags=re.MULTILINE)
    return {name_of(name): version for name, version in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", choices=("lowest", "newest"))
    parser.add_argument("--python", help="by default 3.11 for the lowest, Debian's for the newest")
    parser.add_argument("--tests", nargs="+", help="other tests than the core's and those of the extras")
    parser.add_argument("--quick", action="store_true", help="what takes less than two minutes")
    parser.add_argument("--workers", type=int, default=3)
    arguments = parser.parse_args()
    which, place = arguments.which, ROOT / "build" / arguments.which
    place.mkdir(parents=True, exist_ok=True)
    root, interpreter = None, arguments.python or "3.11"
    if which == "newest" and arguments.python is None:
        root, interpreter = make_root(place / "debian", DEBIAN), f"/usr/bin/python{DEBIAN}"
    tools = place / "tests.txt"
    left_out = TOO_NEW if which == "lowest" else ()
    lines = (ROOT / "requirements-test.txt").read_text().splitlines()
    kept = [line for line in lines if name_of(line) not in left_out and not line.startswith("-r")]
    kept += FOR_OLD_PEERS if which == "lowest" else ()
    tools.write_text("\n".join([*kept, "-r ../../requirements-docs.txt", ""]))
    options: list[object] = ["pyproject.toml", "--all-extras", "--python", interpreter]
    if which == "lowest":
        lowest = compiled(place / "lowest.txt", *options, "--resolution", "lowest-direct", root=root)
        pins = place / "pins.txt"
        pins.write_text("".join(f"{n}=={v}\n" for n, v in sorted(lowest.items()) if n in direct_names()))
        options += ["-c", pins]
    else:
        options += ["--prerelease", "if-necessary-or-explicit"]
    versions = compiled(place / "all.txt", *options, tools, root=root)
    python = place / "venv" / "bin" / "python"
    uv = find_uv_bin()
    prepare(uv, "venv", "--quiet", "--clear", "--python", interpreter, place / "venv", root=root)
    install = (uv, "pip", "install", "--quiet", "-p", python)
    prepare(*install, "-r", place / "all.txt", root=root)
    prepare(*install, "--no-deps", "-e", ROOT, root=root)
    tests = arguments.tests or (QUICK if arguments.quick else [*CORE, *EXTRAS])
    how = ["-n", arguments.workers, "--dist", "loadfile", "-m", "not slow", "-p", "no:npe2"]
    if which == "lowest":
        how += NEWEST_ONLY
    status = run(python, "-m", "pytest", *how, *tests, root=root)
    if status:
        raise SystemExit(status)
    if arguments.tests is None and not arguments.quick:
        found = {name: versions[name] for name in sorted(direct_names()) if name in versions}
        record(which, place / "venv" / "pyvenv.cfg", found)


def record(which: str, settings: Path, versions: dict[str, str]) -> None:
    """Write which versions the tests have passed with."""
    (interpreter,) = re.findall(r"^version_info = (\S+)", settings.read_text(), flags=re.MULTILINE)
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    today = datetime.date.today().isoformat()
    known[which] = {"date": today, "python": interpreter, "packages": versions}
    RECORD.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    print(f"release/versions.json: {which} of {today}, CPython {interpreter}")


if __name__ == "__main__":
    main()
