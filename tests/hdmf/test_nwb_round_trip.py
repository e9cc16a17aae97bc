"""pynwb content comes back equal, under pynwb's own comparison, from v2, v3, N5 and through HDF5."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pynwb.testing.mock
import pytest
from examples import ALL, shares
from nwb_comparison import assert_equal, errors_in_hdf5
from nwb_content import CONTENT, FILES, FORMATS, file_of
from pynwb import NWBHDF5IO, NWBFile
from pynwb.testing.mock.file import mock_NWBFile

from chunkwise.hdmf import NWBZarrIO, convert, open_store, validate

pytestmark = pytest.mark.filterwarnings("ignore")  # pynwb's own, of its deprecations


def _mocks() -> dict[str, Callable[..., Any]]:
    found = {}
    for module in pkgutil.iter_modules(pynwb.testing.mock.__path__):
        loaded = importlib.import_module(f"pynwb.testing.mock.{module.name}")
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            if name.startswith("mock_") and "nwbfile" in inspect.signature(function).parameters:
                found[name] = function
    return found


MOCKS = _mocks()


def write(nwb: NWBFile, path: Path, format: str, **options: Any) -> None:
    with NWBZarrIO(path, mode="w", format=format, **options) as io:
        io.write(nwb)


@pytest.mark.parametrize(("format", "names"), FILES)
def test_checklist_round_trip_of_content(tmp_path: Path, names: str, format: str) -> None:
    nwb = file_of(names)
    write(nwb, tmp_path / "a.nwb.zarr", format)
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as io:
        assert_equal(io.read(), nwb, same_file=True)
        assert io.broken_links == []
        assert io.store.format == format
    assert validate(tmp_path / "a.nwb.zarr") == []


@pytest.mark.parametrize(("format", "mocks"), shares(MOCKS, FORMATS))
def test_checklist_round_trip_of_every_mock_type(tmp_path: Path, format: str, mocks: list[str]) -> None:
    assert len(MOCKS) > 25
    files = [mock_NWBFile()]
    for mock in map(MOCKS.__getitem__, mocks):
        for nwb in files:
            try:
                mock(nwbfile=nwb)
                break
            except (AttributeError, ValueError):
                continue  # a file has one table of electrodes, or one object of that name
        else:
            files.append(mock_NWBFile())
            mock(nwbfile=files[-1])
    for i, nwb in enumerate(files):
        write(nwb, tmp_path / f"{i}.nwb.zarr", format)
        with NWBZarrIO(tmp_path / f"{i}.nwb.zarr") as io:
            assert_equal(io.read(), nwb, same_file=True)


@pytest.mark.parametrize(("format", "names"), FILES)
def test_checklist_hdf5_to_chunkwise_to_hdf5(tmp_path: Path, names: str, format: str) -> None:
    nwb = file_of(names)
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(nwb)
    with NWBHDF5IO(tmp_path / "a.nwb", "r") as source:
        with NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w", format=format) as io:
            io.export(source)
        with NWBZarrIO(tmp_path / "b.nwb.zarr") as io:
            assert_equal(io.read(), nwb)
            assert io.broken_links == []
    with NWBZarrIO(tmp_path / "b.nwb.zarr") as source, NWBHDF5IO(tmp_path / "c.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})
    with NWBHDF5IO(tmp_path / "c.nwb", "r") as io:
        assert_equal(io.read(), nwb)
    assert errors_in_hdf5(tmp_path / "c.nwb") == []


@pytest.mark.parametrize("names", CONTENT if ALL else [" ".join(CONTENT)])
def test_conversion_between_all_formats_loses_nothing(tmp_path: Path, names: str) -> None:
    """v2, v3, N5, HDF5 and back; the source is gone in the end."""
    nwb = file_of(names)
    here = tmp_path / "0.nwb.zarr"
    write(nwb, here, "zarr2")
    for i, format in enumerate(("n5", "zarr3", "hdf5", "zarr3", "zarr2", "n5", "zarr2"), 1):
        there = tmp_path / (f"{i}.nwb" if format == "hdf5" else f"{i}.nwb.zarr")
        convert(here, there, format=format)
        if here.is_dir():
            here.rename(tmp_path / f"gone-{i}")
        here = there
    with NWBZarrIO(here) as io:
        assert_equal(io.read(), nwb)
        assert io.broken_links == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_rebuilt_and_changed_file_is_exported(tmp_path: Path, format: str) -> None:
    nwb = file_of("ecephys")
    write(nwb, tmp_path / "a.nwb.zarr", format)
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as source:
        read = source.read()
        read.add_scratch(np.arange(4), name="more", description="d")
        read.set_modified()
        with NWBZarrIO(tmp_path / "b.nwb.zarr", mode="w", format="zarr3") as io:
            io.export(source, nwbfile=read)
    (tmp_path / "a.nwb.zarr").rename(tmp_path / "gone")
    with NWBZarrIO(tmp_path / "b.nwb.zarr") as io:
        read = io.read()
        assert list(read.scratch["more"].data[:]) == [0, 1, 2, 3]
        assert read.electrodes["group"][3] is read.electrode_groups["shank1"]
        assert np.array_equal(read.acquisition["raw"].data[()], nwb.acquisition["raw"].data)
        assert io.broken_links == []


@pytest.mark.parametrize("format", FORMATS)
def test_attributes_of_hdf5_without_a_value(tmp_path: Path, format: Any) -> None:
    """Other writers of HDF5 have such for empty text and empty lists."""
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(mock_NWBFile())
    with h5py.File(tmp_path / "a.nwb", "r+") as file:
        file["general"].attrs.update(text=h5py.Empty("S1"), numbers=h5py.Empty("f4"))
    convert(tmp_path / "a.nwb", tmp_path / "b", format=format)
    attributes = open_store(tmp_path / "b").attributes("/general")
    assert attributes["text"] == ""
    assert attributes["numbers"].dtype == np.float32 and attributes["numbers"].shape == (0,)
