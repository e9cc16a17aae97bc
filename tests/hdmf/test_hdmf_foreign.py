"""Objects of other files: those that are added to a file that is exported, and those that links lead to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pynwb
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from nwb_content import file_of, new_file
from pynwb import NWBHDF5IO, TimeSeries, get_class, get_manager, load_namespaces, validate
from pynwb.spec import (
    NWBDatasetSpec,
    NWBDtypeSpec,
    NWBGroupSpec,
    NWBNamespaceBuilder,
    NWBRefSpec,
    export_spec,
)

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf import LossWarning, NWBZarrIO, ZarrIO, convert, open_store

FORMATS = ("zarr2", "zarr3", "n5")
KINDS = (*FORMATS, "hdf5")
pytestmark = [
    pytest.mark.filterwarnings("ignore", "error::chunkwise.hdmf.storage.resolve.BrokenLinkWarning"),
    pytest.mark.each_once("format"),
]


def opened(path: Path, kind: str, mode: str = "r", **options: Any) -> Any:
    if kind == "hdf5":
        return NWBHDF5IO(str(path), mode, **options)
    return NWBZarrIO(path, mode, **options, **({"format": kind} if mode == "w" else {}))


def write(path: Path, kind: str, nwb: Any) -> None:
    with opened(path, kind, "w") as io:
        io.write(nwb)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("own", KINDS)
def test_an_object_of_another_file_is_copied_by_an_export(
    tmp_path: Path, own: str, other: str, format: str
) -> None:
    write(tmp_path / "a", own, new_file("mine"))
    theirs = new_file("theirs")
    series = TimeSeries(name="t", data=np.arange(5), unit="V", timestamps=np.arange(5.0))
    theirs.add_acquisition(series)
    theirs.add_acquisition(TimeSeries(name="u", data=series, unit="V", timestamps=series))
    write(tmp_path / "b", other, theirs)
    with opened(tmp_path / "a", own) as a, opened(tmp_path / "b", other) as b:
        nwb, added = a.read(), b.read()
        nwb.add_acquisition(added.acquisition["t"])
        nwb.add_acquisition(added.acquisition["u"])
        with NWBZarrIO(tmp_path / "c", "w", format=format) as io:
            io.export(a, nwb, write_args={"link_data": False})
    for path in (tmp_path / "a", tmp_path / "b"):
        path.rename(path.with_name(f"gone-{path.name}"))
    with NWBZarrIO(tmp_path / "c", strict_links=True) as io:
        nwb = io.read()
        assert nwb.identifier == "mine"
        assert nwb.acquisition["t"].data[:].tolist() == list(range(5))
        assert nwb.acquisition["u"].timestamps[:].tolist() == list(range(5))


def test_a_reference_to_what_is_not_in_the_file_is_refused(tmp_path: Path) -> None:
    for format in FORMATS:
        stray = GroupBuilder("stray", attributes={"data_type": "T"})
        refs = DatasetBuilder("refs", [ReferenceBuilder(stray)], dtype="object")
        with (
            ZarrIO(tmp_path / format, "w", format=format) as io,
            pytest.raises(InvalidArgumentError, match=r'dataset /refs.* T "stray", which is not in the file'),
        ):
            io.write_builder(GroupBuilder("root", datasets=[refs]))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("changed", [False, True])
def test_an_export_without_links_holds_all(tmp_path: Path, format: str, changed: bool) -> None:
    write(tmp_path / "a", format, file_of("intervals"))
    manager = get_manager()
    with NWBZarrIO(tmp_path / "a", manager=manager) as a:
        read = a.read()
        nwb = new_file("linking")
        for name in ("ts", "shared"):
            nwb.add_acquisition(read.acquisition[name])
        nwb.add_acquisition(TimeSeries(name="own", data=read.acquisition[name].data, unit="V", rate=1.0))
        nwb.trials = read.trials
        with NWBZarrIO(tmp_path / "b", "w", format=format, manager=manager) as io:
            io.write(nwb)
    with NWBZarrIO(tmp_path / "b") as b, NWBZarrIO(tmp_path / "c", "w", format=format) as io:
        read = b.read()
        if changed:
            read.set_modified()
        io.export(b, read, write_args={"link_data": False})
    with NWBZarrIO(tmp_path / "b") as b:
        want = str(b.read().trials.to_dataframe().drop(columns="timeseries"))
    for path in (tmp_path / "a", tmp_path / "b"):
        path.rename(path.with_name(f"gone-{path.name}"))
    store = open_store(tmp_path / "c")
    links = {to.source for g in store.walk() if not store.is_dataset(g) for to in store.links(g).values()}
    assert links <= {"."}
    with NWBZarrIO(tmp_path / "c", strict_links=True) as io:
        nwb = io.read()
        assert nwb.acquisition["own"].data[:].tolist() == nwb.acquisition[name].data[:].tolist()
        assert nwb.trials["timeseries"][1][1].timeseries is nwb.acquisition["shared"]
        assert str(nwb.trials.to_dataframe().drop(columns="timeseries")) == want


def test_references_that_still_lead_elsewhere_are_named(tmp_path: Path) -> None:
    write(tmp_path / "a", "zarr3", file_of("intervals"))
    with NWBZarrIO(tmp_path / "a") as a:
        nwb = new_file("linking")
        nwb.trials = a.read().trials
        with NWBZarrIO(tmp_path / "b", "w", manager=a.manager) as io:
            io.write(nwb)
    with (
        NWBZarrIO(tmp_path / "b") as b,
        NWBZarrIO(tmp_path / "c", "w") as io,
        pytest.warns(LossWarning, match="still lead to /acquisition/ts of .*a: no link"),
    ):
        io.export(b, write_args={"link_data": False})


@pytest.mark.parametrize("format", FORMATS)
def test_a_conversion_to_hdf5_holds_what_links_lead_to(tmp_path: Path, format: str) -> None:
    write(tmp_path / "a", format, file_of("ecephys"))
    manager = get_manager()
    with NWBZarrIO(tmp_path / "a", manager=manager) as a:
        nwb = new_file("linking")
        nwb.add_acquisition(a.read().acquisition["raw"])
        nwb.add_acquisition(TimeSeries(name="own", data=a.read().acquisition["raw"].data, unit="V", rate=1.0))
        with NWBZarrIO(tmp_path / "b", "w", format=format, manager=manager) as io:
            io.write(nwb)
    with pytest.raises(ValueError, match="electrodes"):  # to which the copied series refers, outside of it
        convert(tmp_path / "b", tmp_path / "c.nwb")
    assert not (tmp_path / "c.nwb").exists()
    with NWBZarrIO(tmp_path / "a", manager=get_manager()) as a:
        nwb = new_file("linking")
        nwb.add_acquisition(TimeSeries(name="own", data=a.read().acquisition["raw"].data, unit="V", rate=1.0))
        with NWBZarrIO(tmp_path / "b", "w", format=format, manager=a.manager) as io:
            io.write(nwb)
    convert(tmp_path / "b", tmp_path / "c.nwb")
    shutil.rmtree(tmp_path / "a")
    with NWBHDF5IO(tmp_path / "c.nwb", "r") as io:
        assert io.read().acquisition["own"].data.shape == (20, 3)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A type with records that refer to series, which pynwb knows as long as these tests run."""
    folder = tmp_path_factory.mktemp("pairs")
    namespace = NWBNamespaceBuilder("pairs", "ndx-pairs-of-a-test", version="0.1.0", author="a", contact="c")
    namespace.include_namespace("core")
    members = [
        NWBDtypeSpec("who", "d", "text"),
        NWBDtypeSpec("n", "d", "int32"),
        NWBDtypeSpec("to", "d", NWBRefSpec("TimeSeries", "object")),
    ]
    rows = NWBDatasetSpec("d", name="rows", shape=(None,), dims=("n",), dtype=members)
    codes = NWBDatasetSpec("d", name="codes", shape=(None,), dims=("n",), dtype="ascii")
    spec = NWBGroupSpec(
        "d", neurodata_type_def="Pairs", neurodata_type_inc="NWBDataInterface", datasets=[rows, codes]
    )
    export_spec(namespace, [spec], str(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pynwb, "__TYPE_MAP", deepcopy(vars(pynwb)["__TYPE_MAP"]))
        load_namespaces(str(folder / "ndx-pairs-of-a-test.namespace.yaml"))
        yield get_class("Pairs", "ndx-pairs-of-a-test")


def test_records_refer_to_containers_and_ascii_stays_ascii(tmp_path: Path, pairs: Any) -> None:
    """hdmf leaves the containers in the records of a compound to the backend."""
    for kind in KINDS:
        nwb, series = new_file(), TimeSeries(name="t", data=[1, 2], unit="V", rate=1.0)
        nwb.add_acquisition(series)
        dtype = [("who", object), ("n", "i4"), ("to", object)]
        rows = np.array([("ä long text", 1, series), ("", -2, series)], dtype)
        nwb.add_acquisition(pairs(name="pairs", rows=rows, codes=[b"a", b"bc"]))
        write(tmp_path / f"of {kind}", kind, nwb)
        _check_pairs(tmp_path / f"of {kind}", kind)
    converted = tmp_path / "of hdf5"
    for i, to in enumerate(("hdf5", *FORMATS, "hdf5")):
        convert(converted, tmp_path / f"{i}", format=to)  # type: ignore[arg-type]
        converted = tmp_path / f"{i}"
        _check_pairs(converted, to)


def _check_pairs(path: Path, kind: str) -> None:
    with opened(path, kind) as io:
        read = io.read()
        found = read.acquisition["pairs"].rows
        assert [decoded(r[0]) for r in found[:]] == ["ä long text", ""]
        assert [int(r[1]) for r in found[:]] == [1, -2]
        assert all(r[2] is read.acquisition["t"] for r in found[:])
        assert list(read.acquisition["pairs"].codes[:]) == [b"a", b"bc"]
        assert [str(e) for e in validate(io=io, use_cached_namespaces=False)] == []


def test_a_record_of_what_is_not_in_the_file_is_refused(tmp_path: Path, pairs: Any) -> None:
    for format in FORMATS:
        nwb, stray = new_file(), TimeSeries(name="stray", data=[1, 2], unit="V", rate=1.0)
        rows = np.array([("a", 1, stray)], [("who", object), ("n", "i4"), ("to", object)])
        nwb.add_acquisition(pairs(name="pairs", rows=rows, codes=[b"a"]))
        match = r'pairs/rows.* TimeSeries "stray", which is not in the file'
        with (
            NWBZarrIO(tmp_path / format, "w", format=format) as io,
            pytest.raises(InvalidArgumentError, match=match),
        ):
            io.write(nwb)


def decoded(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
