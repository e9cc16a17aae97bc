"""Random trees, written here and read by zarr-python, z5py and xarray, and the other way round."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray
import z5py
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as cw

ZARR = {"zarr3": 3, "zarr2": 2}
N_EXAMPLES = 8

names = st.text("abcXYZ019_-. é", min_size=1, max_size=6).filter(
    lambda name: name.strip(". ") and not name.startswith(("__", ".z", " ")) and not name.endswith(" ")
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('aé\n"\\/ ', max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=2),
    max_leaves=5,
)
attributes = st.dictionaries(st.text("abcdé", min_size=1, max_size=4), values, max_size=3)
arrays = st.builds(
    lambda shape, dtype, attrs: {"shape": tuple(shape), "dtype": dtype, "attrs": attrs},
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(["uint8", "int16", "int64", "float32", "float64"]),
    attributes,
)
trees = st.recursive(
    arrays,
    lambda inner: st.builds(
        lambda attrs, children: {"attrs": attrs, "children": children},
        attributes,
        st.dictionaries(names, inner, max_size=3),
    ),
    max_leaves=6,
).map(lambda tree: tree if "children" in tree else {"attrs": {}, "children": {"a": tree}})


def data_of(array):
    n = int(np.prod(array["shape"]))
    return (np.arange(n) % 100).astype(array["dtype"]).reshape(array["shape"])


def build(group, tree):
    for name, child in tree["children"].items():
        if "children" in child:
            build(group.create_group(name, attributes=child["attrs"]), child)
        else:
            group.create_array(name, data=data_of(child), attributes=child["attrs"])


def assert_ours(group, tree):
    """Check that the tree opened here is `tree`."""
    assert dict(group.attrs) == tree["attrs"]
    assert list(group) == sorted(tree["children"])
    for name, child in tree["children"].items():
        member = group[name]
        assert dict(member.attrs) == child["attrs"]
        if "children" in child:
            assert isinstance(member, cw.Group)
            assert_ours(member, child)
        else:
            assert member.dtype.name == child["dtype"]
            np.testing.assert_array_equal(member.read().result(), data_of(child))


def assert_theirs(group, tree, reverse=False):
    """Check that the tree opened by zarr-python or z5py is `tree`; z5py reverses the axes of N5."""
    own = {name: value for name, value in dict(group.attrs.items()).items() if name != "n5"}
    assert own == tree["attrs"]
    assert sorted(group.keys()) == sorted(tree["children"])
    for name, child in tree["children"].items():
        member = group[name]
        if "children" in child:
            assert_theirs(member, child, reverse)
        else:
            assert dict(member.attrs.items()) == child["attrs"]
            assert np.dtype(member.dtype) == np.dtype(child["dtype"])
            found = member[...]
            np.testing.assert_array_equal(found.T if reverse else found, data_of(child))


def fresh(suffix):
    return Path(tempfile.mkdtemp()) / f"x{suffix}"


quietly = settings(
    max_examples=N_EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.each_once
@pytest.mark.parametrize("format", ZARR)
@pytest.mark.parametrize("consolidated", [False, True])
@quietly
@given(tree=trees)
def test_zarr_python_reads_ours(format, consolidated, tree):
    path = fresh(".zarr")
    group = cw.create_group(path, format=format, attributes=tree["attrs"])
    build(group, tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if consolidated:
            group.consolidate()
            theirs = zarr.open_consolidated(str(path), mode="r", zarr_format=ZARR[format])
        else:
            theirs = zarr.open_group(str(path), mode="r", zarr_format=ZARR[format])
        assert_theirs(theirs, tree)
    assert_ours(cw.open_group(path), tree)
    shutil.rmtree(path.parent)


def build_zarr(group, tree):
    for name, child in tree["children"].items():
        if "children" in child:
            build_zarr(group.create_group(name, attributes=child["attrs"]), child)
        else:
            data = data_of(child)
            array = group.create_array(name, shape=data.shape, dtype=data.dtype, attributes=child["attrs"])
            array[...] = data


@pytest.mark.parametrize("format", ZARR)
@pytest.mark.parametrize("consolidated", [False, True])
@quietly
@given(tree=trees)
def test_we_read_what_zarr_python_writes(format, consolidated, tree):
    path = fresh(".zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.create_group(str(path), zarr_format=ZARR[format], attributes=tree["attrs"])
        build_zarr(theirs, tree)
        if consolidated:
            zarr.consolidate_metadata(str(path), zarr_format=ZARR[format])
    assert_ours(cw.open_group(path, consolidated=consolidated), tree)
    assert_ours(cw.open_group(path, "r+"), tree)
    shutil.rmtree(path.parent)


@quietly
@given(tree=trees)
def test_z5py_reads_ours(tree):
    path = fresh(".n5")
    build(cw.create_group(path, attributes=tree["attrs"]), tree)
    assert_theirs(z5py.File(str(path), mode="r"), tree, reverse=True)
    assert_ours(cw.open_group(path), tree)
    shutil.rmtree(path.parent)


def build_z5(group, tree):
    for name, value in tree["attrs"].items():
        group.attrs[name] = value
    for name, child in tree["children"].items():
        if "children" in child:
            build_z5(group.create_group(name), child)
        else:
            data = data_of(child).T
            dataset = group.create_dataset(
                name, shape=data.shape, chunks=data.shape, dtype=data.dtype, compression="gzip"
            )
            dataset[...] = data
            for key, value in child["attrs"].items():
                dataset.attrs[key] = value


@quietly
@given(tree=trees)
def test_we_read_what_z5py_writes(tree):
    path = fresh(".n5")
    build_z5(z5py.File(str(path), mode="w"), tree)
    assert_ours(cw.open_group(path), tree)
    shutil.rmtree(path.parent)


@pytest.mark.filterwarnings("ignore::chunkwise.errors.LossWarning")
@quietly
@given(tree=trees, data=st.data())
def test_copies_between_formats_are_equal(tree, data):
    formats = data.draw(
        st.sampled_from([("zarr3", "n5", "zarr2"), ("zarr2", "zarr3", "n5"), ("zarr2", "n5", "zarr3")])
    )
    group = cw.create_group("memory://", format=formats[0], attributes=tree["attrs"])
    build(group, tree)
    for format in formats[1:]:
        copy = cw.create_group("memory://", format=format)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cw.errors.LossWarning)  # of nulls: see `without_nulls`
            assert not copy.copy(group, "/").left_out
        group = copy
    assert_ours(group, without_nulls(tree))


def without_nulls(tree):
    """N5 software takes null for missing, so copies to N5 leave it out, and say so."""
    out = {"attrs": {name: value for name, value in tree["attrs"].items() if value is not None}}
    if "children" in tree:
        return {**out, "children": {name: without_nulls(child) for name, child in tree["children"].items()}}
    return {**tree, **out}


@pytest.mark.parametrize("format", ZARR)
def test_xarray_opens_ours(tmp_path, format):
    group = cw.create_group(tmp_path / "x", format=format, attributes={"title": "t"})
    group.create_array("x", data=np.arange(4.0), dimension_names=["x"], attributes={"units": "m"})
    group.create_array("v", data=np.arange(12).reshape(3, 4), dimension_names=["y", "x"])
    for consolidated in (False, True):
        if consolidated:
            group.consolidate()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = xarray.open_zarr(
                str(tmp_path / "x"), consolidated=consolidated, zarr_format=ZARR[format], chunks=None
            )
        assert dataset.attrs == {"title": "t"} and dataset["x"].attrs == {"units": "m"}
        assert dataset["v"].dims == ("y", "x")
        np.testing.assert_array_equal(dataset["v"].values, np.arange(12).reshape(3, 4))
