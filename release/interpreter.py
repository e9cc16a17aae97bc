"""Make a newer CPython from Debian's unstable suite, beside the system, which isn't changed.

python release/interpreter.py FOLDER [--python 3.14] [COMMAND ...]

Packages are downloaded with lists and caches in FOLDER, and unpacked with their C library to FOLDER/root; no
script of theirs runs. COMMAND runs there by `chroot` in a mount namespace of its own, where all other
folders of this machine are bound. Needs Debian, and root.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
from pathlib import Path

_WITH = ("bash", "coreutils", "ca-certificates", "git", "libgomp1", "libstdc++6", "make", "procps")
_OF_ROOT = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "var"}
_OF_ETC = ("resolv.conf", "hosts", "hostname", "passwd", "group", "ssl", "pip.conf", "ca-certificates.conf")


def unstable() -> str:
    """Return the line for Debian's unstable suite at the mirror that this machine uses."""
    told = ["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)|$(SIGNED_BY)", "Created-By: Packages"]
    lists = subprocess.run(["apt-get", *told], check=True, capture_output=True, text=True).stdout
    for line in lists.splitlines():
        origin, label, place, key = line.split("|")
        if origin == label == "Debian":
            return f"deb {f'[signed-by={key}] ' if key.startswith('/') else ''}{place} unstable main\n"
    raise SystemExit("apt knows no mirror of Debian: run apt-get update on a Debian system")


def make_root(folder: Path, version: str) -> Path:
    """Return the folder of a root with CPython, which is made if it isn't there."""
    root, made = folder / "root", folder / f"made-{version}"
    if made.exists():
        return root
    for part in ("lists/partial", "cache/archives/partial", "etc"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(unstable())
    own = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Get::List-Cleanup": "0",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
    subprocess.run(["apt-get", *options, "-q", "update"], check=True)
    packages = [f"python{version}", f"python{version}-venv", *_WITH]
    download = ["install", "--download-only", "--no-install-recommends", "-y", "-q"]
    subprocess.run(["apt-get", *options, *download, *packages], check=True)
    # Folders that are links to those in /usr have to be there first.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    for package in sorted((folder / "cache" / "archives").glob("*.deb")):
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as members:
            unpack = ["tar", "--extract", "--keep-directory-symlink", "--directory", root]
            subprocess.run(unpack, stdin=members.stdout, check=True)
    made.touch()
    return root


def inside(root: Path, command: list[str], directory: Path) -> list[str]:
    """Return the command that runs another one in a root, in a directory of this machine."""
    lines = ["set -e"]
    bound = [path for path in sorted(Path("/").iterdir()) if path.name not in _OF_ROOT and path.is_dir()]
    for path in bound:
        if not path.is_symlink():
            lines += [f"mkdir -p {root}{path}", f"mount --rbind {path} {root}{path}"]
    for name in _OF_ETC:
        path = Path("/etc") / name
        if path.exists():
            make = "mkdir -p" if path.is_dir() else "touch"
            lines += [f"mkdir -p {root}/etc", f"{make} {root}{path}", f"mount --bind {path} {root}{path}"]
    words = shlex.join(["chroot", str(root), "/usr/bin/env", "-C", str(directory), *command])
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "\n".join([*lines, f"exec {words}"]),
    ]


def main() -> None:
    """Make the interpreter; run a command with it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.14")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if platform.system() != "Linux" or os.geteuid():
        raise SystemExit("Debian's interpreters need Linux, and root for chroot")
    root = make_root(arguments.folder.resolve(), arguments.python)
    command = arguments.command or [f"/usr/bin/python{arguments.python}", "--version"]
    raise SystemExit(subprocess.run(inside(root, command, Path.cwd())).returncode)


if __name__ == "__main__":
    main()
