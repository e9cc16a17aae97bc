"""Every function that takes a place takes `storage_options`, and paths of universal_pathlib."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest
import upath
import xarray
from servers import new_s3_bucket

import chunkwise as cw

VALUES = np.arange(48, dtype="u2").reshape(6, 8)
Call = Callable[..., Any]

READING: dict[str, Call] = {
    "open": lambda at, _, **o: cw.open(at("a"), **o).result(),
    "open_array": lambda at, _, **o: cw.open_array(at("a"), **o),
    "open_group": lambda at, _, **o: cw.open_group(at("g"), **o)["v"],
    "read": lambda at, _, **o: cw.read(at("a"), **o),
    "open_dataset": lambda at, _, **o: xarray.open_dataset(at("g"), engine="chunkwise", **o).v,
    "open_datatree": lambda at, _, **o: xarray.open_datatree(at("g"), engine="chunkwise", **o).v,
    "copy": lambda at, to, **o: cw.copy(at("a"), to, verify=True, **o).array,
    "copy_tree": lambda at, to, **o: (cw.copy_tree(at("g"), to, **o), cw.open_group(to)["v"])[1],
    "to_dask": lambda at, _, **o: cw.to_dask(cw.open(at("a"), **o).result()),
}
"""What gives the values of an array called "a", or of "v" in the group "g"."""

LOOKING: dict[str, Call] = {
    "diff": lambda at, _, **o: cw.diff(at("a"), at("a"), **o) == [],
    "verify": lambda at, _, **o: [report.bad for report in cw.verify(at("g"), **o)] == [[], []],
    "plan_copy": lambda at, to, **o: cw.plan_copy(at("a"), to, **o).nbytes == VALUES.nbytes,
}
WRITING: dict[str, Call] = {
    "create_array": lambda place, **o: cw.create_array(place, VALUES, **o),
    "from_dask": lambda place, **o: cw.from_dask(
        dask.array.from_array(VALUES), f"{place}|zarr3:" if isinstance(place, str) else place, **o
    ),
}
TREES: dict[str, Call] = {
    "create_group": lambda place, **o: cw.create_group(place, **o).create_array("v", VALUES),
    "write_dataset": lambda place, **o: cw.xarray.write_dataset(
        xarray.Dataset({"v": (("y", "x"), VALUES)}), place, **o
    ),
}


@pytest.fixture(params=["options", "memory"])
def places(request: pytest.FixtureRequest, moto: str) -> tuple[Callable[[str], Any], dict[str, Any]]:
    """What makes a place of a name, and the options that go with it."""
    if request.param == "memory":
        root = uuid.uuid4().hex
        return lambda name: upath.UPath(f"memory://{root}/{name}"), {}
    bucket = new_s3_bucket(moto)
    options = {"storage_options": {"client_kwargs": {"endpoint_url": moto, "region_name": "us-east-1"}}}
    return lambda name: f"s3://{bucket}/{name}/", options


def test_functions_take_them(places: Any, tmp_path: Path) -> None:
    at, options = places
    cw.create_array(at("a"), VALUES, dimension_names=["y", "x"], **options)
    names = ["y", "x"]
    cw.create_group(at("g"), **options).create_array("v", VALUES, dimension_names=names)
    for name, call in READING.items():
        found = call(at, tmp_path / f"{name}.zarr", **options)
        np.testing.assert_array_equal(np.asarray(found), VALUES, err_msg=name)
    for name, call in LOOKING.items():
        assert call(at, tmp_path / f"{name}.zarr", **options), name
    for name, call in WRITING.items():
        call(at(name), **options)
        np.testing.assert_array_equal(cw.read(at(name), **options), VALUES, err_msg=name)
    for name, call in TREES.items():
        call(at(name), **options)
        np.testing.assert_array_equal(cw.open_group(at(name), **options)["v"], VALUES, err_msg=name)
    if not options:
        np.testing.assert_array_equal(cw.stack([at("a"), at("a")]), [VALUES, VALUES])


def test_options_are_for_both_places(moto: str, tmp_path: Path) -> None:
    """Of a copy within a bucket, and to it."""
    bucket = new_s3_bucket(moto)
    options: Any = {"endpoint_url": moto}
    cw.create_array(tmp_path / "a", VALUES)
    for source, to in ((tmp_path / "a", "b"), (f"s3://{bucket}/b/", "c")):
        cw.copy(source, f"s3://{bucket}/{to}/", verify=True, storage_options=options)
    assert cw.diff(tmp_path / "a", f"s3://{bucket}/c/", storage_options=options) == []


def test_images_and_blocks_of_n5_take_them(places: Any, tmp_path: Path) -> None:
    at, options = places
    if options:  # levels are written with conditions, which fsspec has none of
        cw.create_array(at("scan"), VALUES, **options)
        made = cw.downsample_pyramid(at("scan"), at("image"), axes=["y", "x"], levels=1, **options)
        assert len(made.result().levels) == 2
    else:
        cw.downsample_pyramid(cw.array(VALUES), tmp_path / "a", axes=["y", "x"], levels=1).result()
        group = cw.open_group(tmp_path / "a")
        cw.create_group(at("image"), attributes=dict(group.attrs))
        for name, level in group.arrays():
            cw.create_array(at(f"image/{name}"), level.read().result(), dimension_names=["y", "x"])
    image = cw.open_multiscale(at("image"), **options)
    np.testing.assert_array_equal(image.levels[0], VALUES)
    cw.create_array(at("old"), VALUES, format="zarr2", **options)
    assert cw.migrate(at("old"), **options).removed == (".zarray",)
    cw.create_container(at("c.n5"), **options)
    sizes: Any = {"dimensions": [4], "block_size": [2], "data_type": "uint8"}
    blocks = cw.create_n5_blocks(at("c.n5/d"), **sizes, **options)
    blocks[0] = np.array([7, 8, 9], "uint8")
    assert cw.open_n5_blocks(at("c.n5/d"), **options)[0].tolist() == [7, 8, 9]
    cw.create_n5_blocks(at("c.n5/l"), **sizes, attributes={"isLabelMultiset": True}, **options)
    assert cw.open_label_multisets(at("c.n5/l"), **options).shape == (4,)
