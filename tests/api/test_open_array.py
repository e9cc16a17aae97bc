"""``open_array``: an array of whatever format by its place."""

import json

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "zarr1", "n5"])
def test_places_and_modes(tmp_path, format):
    path = tmp_path / "a"
    made = ts.create_array(path, np.arange(6), format=format)
    places = [
        path,
        str(path),
        f"file://{path}/",
        made.spec(),
        made.kvstore,
        json.loads(json.dumps(made.spec().to_json())),
    ]
    for place in places:
        assert ts.open_array(place).read().result().tolist() == list(range(6))
    with pytest.raises(InvalidArgumentError, match="writing"):
        ts.open_array(path)[0].write(1).result()
    ts.open_array(path, "r+")[0].write(7).result()
    assert int(ts.open_array(path)[0]) == 7


def test_what_is_no_array(tmp_path):
    ts.create_group(tmp_path / "g")
    with pytest.raises(NotFoundError, match="no array at"):
        ts.open_array(tmp_path / "absent")
    with pytest.raises(FailedPreconditionError, match="open_group"):
        ts.open_array(tmp_path / "g")
    with pytest.raises(InvalidArgumentError, match="create_array"):
        ts.open_array(tmp_path / "g", "w")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("name", ["dask", "hdmf", "n5", "notebook", "testing", "xarray", "z5py", "zarr"])
def test_parts_of_the_package_need_no_import_of_their_own(name):
    assert getattr(ts, name).__name__ == f"chunkwise.{name}" and name in dir(ts)
