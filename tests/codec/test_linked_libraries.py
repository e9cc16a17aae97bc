"""Values are right where an application has loaded another version of a library that is called directly."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw

_LOAD = """if 1:
    import ctypes, sys
    for what in sys.argv[2:]:
        if what == "numcodecs":
            import numcodecs.zstd
        elif what == "imagecodecs":
            import imagecodecs
            imagecodecs.BLOSC.available
        elif what == "NCZarr":  # its plugins are loaded so too
            import netCDF4
            dataset = netCDF4.Dataset(f"file://{sys.argv[1]}.nc#mode=nczarr,file", "w")
            dataset.createDimension("x", 1)
            dataset.createVariable("x", "i4", ("x",), compression="zstd")[:] = 1
            dataset.close()
            assert hasattr(ctypes.CDLL(None), "ZSTD_createDCtx")
        else:
            ctypes.CDLL(what, mode=ctypes.RTLD_GLOBAL)  # as OpenGL loads it
"""
_ZSTD = """
    import numpy as np
    import chunkwise as cw
    from chunkwise.core.libraries import zstd
    assert zstd.used == "numcodecs (libzstd)", zstd.used
    wanted = np.load(sys.argv[1] + ".npy")
    for _ in range(12):
        assert np.array_equal(cw.open(sys.argv[1]).result().read().result(), wanted)
"""


linux = pytest.mark.skipif(
    sys.platform != "linux", reason="only there are functions of all libraries one name space"
)


@linux
@pytest.mark.parametrize(
    "order",
    [
        ["libzstd.so.1"],
        ["libzstd.so.1", "numcodecs"],
        ["numcodecs", "libzstd.so.1"],
        ["NCZarr", "numcodecs"],
        ["numcodecs", "NCZarr"],
    ],
    ids="-".join,
)
def test_another_libzstd_is_not_mixed_in(children, tmp_path: Path, order: list[str]) -> None:
    path = tmp_path / "a.zarr"
    values = (
        np.random.default_rng(0).poisson(np.linspace(0, 400, 96)[:, None, None], (96, 96, 96)).astype("u2")
    )
    np.save(f"{path}.npy", values)
    cw.create_array(path, values, chunks=(32, 32, 32), codec="zstd:3")
    process = children.python(_LOAD + _ZSTD, path, *order, stderr=subprocess.PIPE, text=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


_SNAPPY = """
    from pathlib import Path
    import numpy as np
    import chunkwise as cw

    path = sys.argv[1]
    assert np.array_equal(cw.open_array(path + ".n5")[:], np.load(path + ".npy"))
    values = np.arange(3000, dtype="u2").reshape(60, 50)
    metadata = {"compression": {"type": "blosc", "cname": "snappy", "clevel": 5, "shuffle": 1}}
    cw.create_array(path + ".new.n5", values, metadata=metadata, chunks=(20, 25))
    assert b"snappy" in Path(path + ".new.n5", "attributes.json").read_bytes()
    assert np.array_equal(cw.open_array(path + ".new.n5")[:], values)
"""


@linux
@pytest.mark.parametrize(
    "order",
    [["NCZarr"], ["NCZarr", "imagecodecs"], ["imagecodecs", "NCZarr"], ["imagecodecs"], []],
    ids="-".join,
)
def test_another_c_blosc_is_not_mixed_in(children, tmp_path: Path, order: list[str]) -> None:
    """NetCDF's c-blosc, which its plugins make global, has no Snappy."""
    path = tmp_path / "a"
    values = np.arange(2000, dtype="u2").reshape(40, 50)
    metadata = {"compression": {"type": "blosc", "cname": "snappy", "clevel": 5, "shuffle": 1}}
    cw.create_array(f"{path}.n5", values, metadata=metadata, chunks=(20, 25))
    np.save(f"{path}.npy", values)
    process = children.python(_LOAD + _SNAPPY, path, *order, stderr=subprocess.PIPE, text=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
