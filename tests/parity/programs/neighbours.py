"""Program of test_libraries_on_tensorstore: xarray-tensorstore and ngff-zarr by a library named tensorstore.

    python neighbours.py {chunkwise,tensorstore} FOLDER

Prints a JSON object with the outcome of each step: "ok", "wrong values" or the error.
"""

import sys
from pathlib import Path

library, folder = sys.argv[1], Path(sys.argv[2])
if library == "chunkwise":
    import chunkwise

    chunkwise.install_as_tensorstore()

import ngff_zarr as nz  # noqa: E402 - the library it is to find comes first
import numpy as np  # noqa: E402
import tensorstore  # noqa: E402
import xarray as xr  # noqa: E402
import xarray_tensorstore as xt  # noqa: E402
import zarr  # noqa: E402
from steps import report  # noqa: E402

RNG = np.random.default_rng(0)


def dataset(first):
    values = RNG.random((4, 5, 6), dtype="f4")
    coordinates = {"time": np.arange(first, first + 4), "x": np.arange(6.0)}
    return xr.Dataset({"v": (("time", "y", "x"), values), "n": ("x", np.arange(6))}, coordinates)


def opened(zarr_format):
    def run():
        path, data = str(folder / f"a{zarr_format}"), dataset(0)
        data.chunk(time=2, x=4).to_zarr(path, zarr_format=zarr_format)
        found = xt.open_zarr(path)
        same = found.identical(data)
        part = found.isel(time=slice(1, 3), x=[0, 2, 5]).transpose("x", ...)
        same &= part.identical(data.isel(time=slice(1, 3), x=[0, 2, 5]).transpose("x", ...))
        return same and xt.read(found.sel(time=2)).compute().identical(data.sel(time=2))

    return run


def concatenated():
    parts = [dataset(first).drop_vars("n") for first in (0, 4, 8)]
    for i, part in enumerate(parts):
        part.to_zarr(str(folder / f"part{i}"), zarr_format=3)
    found = xt.open_concatenated_zarrs([str(folder / f"part{i}") for i in range(3)], concat_dim="time")
    expected = xr.concat(parts, "time")
    return np.array_equal(found.v, expected.v) and np.array_equal(found.v[::-1, 2], expected.v[::-1, 2])


def image(version, shards):
    def run():
        values = RNG.integers(0, 200, (40, 48, 64), dtype="u2")
        levels = nz.to_multiscales(nz.to_ngff_image(values, dims=("z", "y", "x")), [2], chunks=16)
        path = str(folder / f"image{version}{shards}")
        options = {"chunks_per_shard": 2} if shards else {}
        nz.to_ngff_zarr(path, levels, version=version, use_tensorstore=True, **options)
        names = [level["path"] for level in _multiscales(path)["datasets"]]
        found = [zarr.open_array(f"{path}/{name}", mode="r")[...] for name in names]
        return np.array_equal(found[0], values) and found[1].shape == (20, 24, 32) and found[1].any()

    return run


def _multiscales(path):
    attributes = zarr.open_group(path, mode="r").attrs
    return attributes.get("ome", attributes)["multiscales"][0]


STEPS = {
    **{f"open_zarr {n}": opened(n) for n in (2, 3)},
    "open_concatenated_zarrs": concatenated,
    "to_ngff_zarr 0.4": image("0.4", False),
    "to_ngff_zarr 0.5": image("0.5", False),
    "to_ngff_zarr 0.5, sharded": image("0.5", True),
}


if __name__ == "__main__":
    report(tensorstore, STEPS)
