"""Files with many small variables: `verify`, and opening them as a dataset, compared with h5netcdf.

    python benchmarks/hdf5_many.py [NUMBER ...]

The time per variable should not depend on the number, by default 100, 1,000 and 10,000.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import xarray

import chunkwise as ts


def _write(path: Path, number: int) -> None:
    with h5py.File(path, "w") as file:
        for i in range(number):
            scale = f"x{i // 1000}"  # each lists the variables that it is attached to, in 64 KiB at most
            if scale not in file:
                file[scale] = np.arange(4.0)
                file[scale].make_scale(scale)
            made = file.create_dataset(f"v{i:06}", data=np.arange(4))
            made.dims[0].attach_scale(file[scale])


def _measure(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def main() -> None:
    for number in map(int, sys.argv[1:] or ("100", "1000", "10000")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.h5"
            _write(path, number)
            for name, what in {
                "verify": lambda path=path: list(ts.verify(path)),
                "tree": lambda path=path: str(ts.open_group(path).tree()),
                "open_dataset": lambda path=path: xarray.open_dataset(f"{path}|hdf5:", engine="chunkwise"),
                "h5netcdf": lambda path=path: xarray.open_dataset(path, engine="h5netcdf"),
            }.items():
                seconds = _measure(what)
                print(
                    f"{number:>7} variables  {name:<13} {seconds:8.2f} s"
                    f"  {seconds / number * 1e3:6.2f} ms each"
                )


if __name__ == "__main__":
    main()
