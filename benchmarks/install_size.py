"""Packages and megabytes of a plain install, compared with TensorStore's and zarr-python's.

python benchmarks/install_size.py [CHUNKWISE]

CHUNKWISE is what pip installs as chunkwise, by default this source tree. Each is installed into an empty
directory, from the package index, without compiled bytecode.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def measure(requirement: str) -> tuple[list[str], int, dict[str, int]]:
    """Return the packages that an install brings, its bytes, and the bytes by top directory."""
    with tempfile.TemporaryDirectory() as directory:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
        ]
        subprocess.check_call([*pip, "--target", directory, requirement])
        root = Path(directory)
        packages = sorted(path.name.split("-")[0] for path in root.glob("*.dist-info"))
        sizes: dict[str, int] = {}
        for path in root.rglob("*"):
            if path.is_file():
                top = path.relative_to(root).parts[0]
                sizes[top] = sizes.get(top, 0) + path.stat().st_size
        return packages, sum(sizes.values()), sizes


def main() -> None:
    """Print the table."""
    chunkwise = sys.argv[1] if len(sys.argv) > 1 else str(ROOT)
    print("| `pip install` | packages | MB | without NumPy | which |")
    print("|---|---|---|---|---|")
    for name, requirement in {"chunkwise": chunkwise, "tensorstore": "tensorstore", "zarr": "zarr"}.items():
        packages, n_bytes, sizes = measure(requirement)
        numpy = sum(size for top, size in sizes.items() if top.startswith("numpy"))
        row = (
            name,
            len(packages),
            f"{n_bytes / 1e6:.0f}",
            f"{(n_bytes - numpy) / 1e6:.0f}",
            ", ".join(packages),
        )
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
