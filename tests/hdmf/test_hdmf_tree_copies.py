"""Copies of NWB files as trees: a conversion is needed for another format, and the refusal says how."""

import re
import shutil
import warnings
from pathlib import Path

import h5py
import pytest

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import FailedPreconditionError
from chunkwise.hdmf import convert, read_nwb

SMALL = Path(__file__).parents[1] / "fixtures/nwb/small-v2"


@pytest.fixture(autouse=True)
def quiet():
    """pynwb warns of its own deprecations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One NWB file in each format, by format."""
    place = tmp_path_factory.mktemp("nwb")
    names = {"zarr2": "v2.zarr", "zarr3": "v3.zarr", "n5": "a.n5", "hdf5": "a.nwb"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for format, name in names.items():
            convert(SMALL, place / name, format=format)
    return {format: place / name for format, name in names.items()}


@pytest.mark.each_once
@pytest.mark.parametrize("to", ["zarr2", "zarr3", "n5"])
@pytest.mark.parametrize("source", ["zarr2", "zarr3", "n5", "hdf5"])
def test_a_tree_is_refused_or_is_the_file(files, tmp_path, source, to):
    """What is refused changes nothing, with overwrite too; the line in the refusal makes the copy."""
    there = tmp_path / ("b.n5" if to == "n5" else "b.zarr")
    if source == to:
        assert not cw.copy_tree(files[source], there, format=to).losses
    else:
        with pytest.raises(ValueError, match="NWB or HDMF file") as refused:
            cw.copy_tree(files[source], there, format=to)
        assert not there.exists()
        taken = tmp_path / f"taken{there.suffix}"
        cw.create_group(taken, format=to, attributes={"kept": 1})
        with pytest.raises(ValueError, match="NWB or HDMF file"):
            cw.copy_tree(files[source], taken, format=to, overwrite=True)
        tree = cw.open_group(taken, mode="r+")
        with pytest.raises(ValueError, match="NWB or HDMF file"):
            tree.copy(cw.open_group(files[source]), "deep/copy")
        assert dict(tree.attrs) == {"kept": 1} and list(tree) == []
        line = re.search(r"chunkwise\.hdmf\.convert\((.*?)\)", str(refused.value))[1]
        place, target, format = re.fullmatch(r'"(.*)", "(.*)", format="(.*)"', line).groups()
        assert target == str(there)
        convert(place, target, format=format)
    assert list(cw.diff(files[source], there)) == []
    assert len(read_nwb(there).trials) == 1


def test_a_command_converts_what_a_function_refuses(files, tmp_path, capsys):
    assert main(["cp", "-r", str(files["hdf5"]), str(tmp_path / "b.zarr"), "--quiet"]) == 0
    assert list(cw.diff(files["hdf5"], tmp_path / "b.zarr")) == []


def test_a_file_in_hdf5_that_hdmf_did_not_write(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"], f["g/y"] = [1, 2], [3]
    assert cw.copy_tree(tmp_path / "a.h5", tmp_path / "a.zarr").n_arrays == 2


def test_migration_in_place(files, tmp_path):
    """References change with the format; the advice rewrites the file."""
    place = tmp_path / "a.zarr"
    shutil.copytree(files["zarr2"], place)
    for apply in (False, True):
        with pytest.raises(FailedPreconditionError, match="nwb repack --format zarr3") as refused:
            cw.migrate(place, apply=apply)
    command = re.search(r"`chunkwise (.*?)`", str(refused.value))[1].split()
    assert main([*command, "--quiet"]) == 0
    assert list(cw.diff(files["zarr2"], place)) == []
