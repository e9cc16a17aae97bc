"""`chunkwise.diff` of HDMF files: a faithful conversion has no difference, each real change has one."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from examples import ALL
from h5_members import fill
from nwb_content import ecephys, intervals, new_file, ophys, tables
from peer_environment import PEERS, peer_python
from pynwb import NWBHDF5IO, TimeSeries

import chunkwise
from chunkwise.cli.main import main
from chunkwise.hdmf import NWBZarrIO, convert

pytestmark = pytest.mark.filterwarnings("ignore")

FORMATS = ("zarr2", "zarr3", "n5", "hdf5")
LARGE = np.arange(40_000, dtype="i4").reshape(20_000, 2)


def _rename_column(file: h5py.File, path: str, old: str, new: str | None) -> None:
    dataset = file[path]
    attributes, values = dict(dataset.attrs), dataset[...]
    names = [name for name in values.dtype.names if new is not None or name != old]
    dtype = np.dtype([(new if name == old else name, values.dtype[name]) for name in names])
    out = np.empty(values.shape, dtype)
    for name in names:
        out[new if name == old else name] = values[name]
    _replace(file, path, out, attributes)
    file[f"{path}_index"].attrs["target"] = file[path].ref  # HDF5 has lost it with the old column


def _replace(file: h5py.File, path: str, values: Any, attributes: dict[str, Any] | None = None) -> None:
    attributes = dict(file[path].attrs) if attributes is None else attributes
    del file[path]
    made = file.create_dataset(path, data=values)
    for name, value in attributes.items():
        made.attrs[name] = value


def _set_record(file: h5py.File, path: str, row: int, **members: Any) -> None:
    dataset = file[path]
    record = dataset[row]
    for name, value in members.items():
        record[name] = value
    dataset[row] = record


def _set_specification(file: h5py.File) -> None:
    (version,) = file["specifications/core"]
    path = f"specifications/core/{version}/nwb.base"
    content = json.loads(file[path][()])
    content["groups"][0]["doc"] = "another text"
    file[path][()] = json.dumps(content)


def _remove_specification(file: h5py.File) -> None:
    del file["specifications/hdmf-experimental"]


def _relink(file: h5py.File) -> None:
    del file["acquisition/shared/timestamps"]
    file["acquisition/shared/timestamps"] = h5py.SoftLink("/acquisition/ts/data")


def _unlink(file: h5py.File) -> None:
    del file["acquisition/shared/timestamps"]
    file["acquisition/shared/timestamps"] = np.arange(20.0)


def _set(path: str, index: Any, value: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file[path][index] = value

    return change


def _set_attribute(path: str, name: str, value: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        file[path].attrs[name] = value(file) if callable(value) else value

    return change


def _remove(path: str) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[path]

    return change


SHANK = "general/extracellular_ephys/shank1"
GROUPS = "general/extracellular_ephys/electrodes/group"
TIMESERIES = "intervals/trials/timeseries"
MASK = "processing/ophys/ImageSegmentation/ps_pixel/pixel_mask"

CHANGES: dict[str, tuple[Callable[[h5py.File], None], str, str]] = {
    "number": (_set("acquisition/ts/data", 3, 99.0), "acquisition/ts/data", "values"),
    "number of a large dataset": (
        _set("acquisition/large/data", (17_000, 1), -1),
        "acquisition/large/data",
        "values",
    ),
    "scalar": (_set("acquisition/large/starting_time", (), 0.5), "acquisition/large/starting_time", "values"),
    "text": (_set("session_description", (), "another"), "session_description", "values"),
    "item of text": (_set("general/keywords", 1, "bbb"), "general/keywords", "values"),
    "flag": (_set("scratch/dt/flag", 0, True), "scratch/dt/flag", "values"),
    "attribute": (_set_attribute("acquisition/ts/data", "unit", "A"), "acquisition/ts/data", "attribute"),
    "attribute of a group": (
        _set_attribute("acquisition/ts", "description", "x"),
        "acquisition/ts",
        "attribute",
    ),
    "attribute that is new": (_set_attribute("general", "new", 1), "general", "attribute"),
    "attribute that is a number": (_set_attribute("stuff", "small", np.uint8(8)), "stuff", "attribute"),
    "attribute that is a record": (
        _set_attribute("stuff", "record", np.array((1, 3.5), [("a", "i2"), ("b", "f8")])),
        "stuff",
        "attribute",
    ),
    "attribute that is gone": (
        lambda file: file["acquisition/ts"].attrs.__delitem__("comments"),
        "acquisition/ts",
        "attribute",
    ),
    "attribute that is a reference": (
        _set_attribute("units/electrodes", "table", lambda file: file["units"].ref),
        "units/electrodes",
        "attribute",
    ),
    "attribute that is a region": (
        _set_attribute("stuff", "roi", lambda file: file["stuff/numbers"].regionref[1:4, ::2]),
        "stuff",
        "attribute",
    ),
    "identity": (_set_attribute("acquisition/ts", "object_id", "another"), "acquisition/ts", "attribute"),
    "reference": (lambda file: file[GROUPS].__setitem__(0, file[SHANK].ref), GROUPS, "values"),
    "region": (
        lambda file: file["stuff/regions"].__setitem__(1, file["stuff/numbers"].regionref[4:6, 2]),
        "stuff/regions",
        "values",
    ),
    "reference in a record": (
        lambda file: _set_record(file, TIMESERIES, 0, timeseries=file["acquisition/large"].ref),
        TIMESERIES,
        "values",
    ),
    "number in a record": (lambda file: _set_record(file, TIMESERIES, 1, count=7), TIMESERIES, "values"),
    "number in a plain record": (lambda file: _set_record(file, MASK, 2, weight=7.5), MASK, "values"),
    "scalar record": (
        lambda file: file[f"{SHANK}/position"].__setitem__(
            (), np.array((1, 2, 4), file[f"{SHANK}/position"].dtype)
        ),
        f"{SHANK}/position",
        "values",
    ),
    "name of a column": (lambda file: _rename_column(file, MASK, "weight", "mass"), MASK, "dtype"),
    "column that is gone": (lambda file: _rename_column(file, MASK, "y", None), MASK, "dtype"),
    "dataset that is gone": (_remove("acquisition/large/data"), "acquisition/large/data", "structure"),
    "group that is gone": (_remove("processing/ecephys/LFP"), "processing/ecephys/LFP", "structure"),
    "group in the place of a dataset": (
        lambda file: (file.__delitem__("general/keywords"), file.create_group("general/keywords")),
        "general/keywords",
        "structure",
    ),
    "link to another object": (_relink, "acquisition/shared/timestamps", "link"),
    "link that is a copy": (_unlink, "acquisition/shared/timestamps", "structure"),
    "link that is gone": (
        _remove("acquisition/shared/timestamps"),
        "acquisition/shared/timestamps",
        "structure",
    ),
    "data type": (
        lambda file: _replace(file, "acquisition/ts/data", np.arange(20, dtype="f4")),
        "acquisition/ts/data",
        "dtype",
    ),
    "shape": (
        lambda file: _replace(file, "acquisition/ts/data", np.arange(19.0)),
        "acquisition/ts/data",
        "shape",
    ),
    "specification": (_set_specification, "specifications/core", "values"),
    "specification that is gone": (_remove_specification, "specifications/hdmf-experimental", "structure"),
}
"""What is changed in an HDF5 file; the path that is named, and what of it."""

FEW = ("number", "reference", "link to another object", "reference in a record", "name of a column")


def _file(path: Path, *, with_members: bool) -> Path:
    nwb = new_file()
    for add in (ecephys, ophys, intervals, tables):
        add(nwb)
    nwb.add_acquisition(TimeSeries("large", LARGE, "V", rate=10.0))
    if (
        not with_members
    ):  # 0.13 can't write a scalar record, nor any release lists of references in attributes
        for group in nwb.electrode_groups.values():
            group.fields.pop("position", None)
    with NWBHDF5IO(path, "w") as io:
        io.write(nwb)
    if with_members:
        with h5py.File(path, "r+") as file:
            fill(file, "stuff")
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _file(tmp_path_factory.mktemp("source") / "a.nwb", with_members=True)


@pytest.fixture(scope="module")
def converted(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("converted")
    for format in FORMATS:
        convert(source, place / format, format=format)  # type: ignore[arg-type]
    return {format: place / format for format in FORMATS}


def _changed(source: Path, target: Path, *changes: str) -> Path:
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        for change in changes:
            CHANGES[change][0](file)
    return target


def _check(found: list[chunkwise.Difference], *changes: str) -> None:
    left = list(found)
    for change in changes:
        _, name, what = CHANGES[change]
        own = [difference for difference in left if _is_in(difference.name, name)]
        assert {difference.what for difference in own} == {what}, (change, found)
        if not name.startswith("specifications"):
            assert len(own) == 1, (change, found)
            assert own[0].name == name
        left = [difference for difference in left if difference not in own]
    assert left == []
    assert all("\n" not in str(difference) for difference in found)


def _is_in(name: str, folder: str) -> bool:
    return f"{name}/".startswith(f"{folder}/")


def _apart(changes: Iterable[str]) -> list[tuple[str, ...]]:
    """Return lists of changes that are told apart by their paths; single changes for all examples."""
    lists: list[list[str]] = []
    for change in changes:
        path = CHANGES[change][1]
        for together in [] if ALL else lists:
            others = [CHANGES[other][1] for other in together]
            if not any(_is_in(path, other) or _is_in(other, path) for other in others):
                together.append(change)
                break
        else:
            lists.append([change])
    return [tuple(each) for each in lists]


@pytest.mark.parametrize("format", FORMATS)
def test_a_conversion_has_no_differences(source: Path, converted: dict[str, Path], format: str) -> None:
    """Each format is right of the source, and left of another format."""
    assert chunkwise.diff(source, converted[format]) == []
    following = FORMATS[FORMATS.index(format) - 1]
    assert chunkwise.diff(converted[format], converted[following]) == []


@pytest.mark.each_once
@pytest.mark.parametrize("changes", _apart(CHANGES), ids=",".join)
@pytest.mark.parametrize("to", ["zarr3", "zarr2", "hdf5"])
def test_each_change_of_a_file_is_one_difference(
    source: Path, converted: dict[str, Path], tmp_path: Path, to: str, changes: tuple[str, ...]
) -> None:
    changed, place = _changed(source, tmp_path / "b.nwb", *changes), converted.get(to, source)
    there = chunkwise.diff(place, changed)
    _check(there, *changes)
    if set(changes) & set(FEW):
        back = chunkwise.diff(changed, place)
        _check(back, *changes)
        assert [(d.left, d.right) for d in there] == [(d.right, d.left) for d in back]


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
@pytest.mark.parametrize("changes", _apart(FEW), ids=",".join)
def test_each_change_of_a_store_is_one_difference(
    source: Path, converted: dict[str, Path], tmp_path: Path, format: Any, changes: tuple[str, ...]
) -> None:
    convert(_changed(source, tmp_path / "b.nwb", *changes), tmp_path / "b", format=format)
    _check(chunkwise.diff(source, tmp_path / "b"), *changes)
    _check(chunkwise.diff(tmp_path / "b", converted["zarr3"]), *changes)


def test_the_command_names_the_path(
    source: Path, converted: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(source), str(converted["zarr3"])]) == 0
    assert "no differences" in capsys.readouterr().err
    changed = _changed(source, tmp_path / "b.nwb", "reference")
    assert main(["diff", str(changed), str(converted["zarr3"])]) == 1
    line = f'{GROUPS}: values (1 of 6 differ; the first at [0]): {{"object":"/{SHANK}"}} | '
    assert capsys.readouterr().out.startswith(line + '{"object":"/general/extracellular_ephys/shank0"}')


@pytest.mark.each_once
@pytest.mark.parametrize(
    "path", ["units", "units/electrode_group", "acquisition", "intervals/trials/timeseries"]
)
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_parts_of_files_are_compared_alike(
    source: Path, converted: dict[str, Path], tmp_path: Path, path: str, format: str
) -> None:
    assert chunkwise.diff(f"{source}|hdf5:{path}", converted[format] / path) == []
    changed = _changed(source, tmp_path / "b.nwb", "reference in a record")
    n = 1 if path.startswith("intervals") else 0
    assert len(chunkwise.diff(f"{changed}|hdf5:{path}", converted[format] / path)) == n


def test_values_attributes_and_layout_are_compared_if_asked(
    source: Path, converted: dict[str, Path], tmp_path: Path
) -> None:
    values = _changed(source, tmp_path / "b.nwb", "number")
    assert chunkwise.diff(values, converted["zarr3"], values=False) == []
    attributes = _changed(source, tmp_path / "c.nwb", "attribute")
    assert chunkwise.diff(attributes, converted["zarr3"], attributes=False) == []
    found = chunkwise.diff(source, converted["zarr3"], layout=True)
    # Empty datasets get longer chunks, since they are going to grow.
    assert {difference.what for difference in found} == {"format", "codec", "chunks"}


def test_regions_are_the_same_if_their_elements_are(tmp_path: Path) -> None:
    from hdmf.build import DatasetBuilder, GroupBuilder

    from chunkwise.hdmf import RegionReference, ZarrIO

    def write(name: str, region: Any) -> Path:
        table = DatasetBuilder("table", np.arange(24).reshape(6, 4))
        regions = DatasetBuilder("regions", [RegionReference(region, table)], dtype="region")
        attributes = {"data_type": "Thing", "namespace": "none"}
        with ZarrIO(tmp_path / name, mode="w") as io:
            io.write_builder(GroupBuilder("root", datasets=[table, regions], attributes=attributes))
        return tmp_path / name

    rows = write("a", slice(1, 3))
    boxes = write("b", [[1, 0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 1], [2, 2], [2, 3]])
    assert chunkwise.diff(rows, boxes) == []
    assert len(chunkwise.diff(rows, write("c", slice(1, 4)))) == 1
    (found,) = chunkwise.diff(
        boxes, write("d", [[1, 0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 1], [2, 2], [3, 3]])
    )
    assert found.name == "regions"


def test_a_copy_of_what_a_link_to_another_file_leads_to_is_no_difference(tmp_path: Path) -> None:
    first = _file(tmp_path / "first.nwb", with_members=False)
    with NWBHDF5IO(tmp_path / "second.nwb", "w") as io, NWBHDF5IO(first, "r") as other:
        nwb = new_file("second")
        nwb.add_acquisition(TimeSeries("t", other.read().acquisition["large"].data, "V", rate=1.0))
        io.write(nwb)
    with h5py.File(tmp_path / "second.nwb") as file:
        assert isinstance(file["acquisition/t"].get("data", getlink=True), h5py.ExternalLink)
    gc.disable()
    try:
        convert(tmp_path / "second.nwb", tmp_path / "b")
        assert chunkwise.diff(tmp_path / "second.nwb", tmp_path / "b") == []
        with h5py.File(first, "r+"):  # no garbage keeps the file open that the link leads to
            pass
    finally:
        gc.enable()
    with h5py.File(first, "r+") as file:
        file["acquisition/large/data"][5, 1] = -1
    (found,) = chunkwise.diff(tmp_path / "second.nwb", tmp_path / "b")
    assert (found.name, found.what) == ("acquisition/t/data", "values")


EXPORT = """
import sys, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import NWBZarrIO
from pynwb import NWBHDF5IO
with NWBHDF5IO(sys.argv[1], "r") as a, NWBZarrIO(sys.argv[2], "w") as b:
    b.export(src_io=a, write_args={"link_data": False})
"""

OF_MEMBERS = ("stuff", "position")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Path]]]:
    """An HDF5 file, and what each release of hdmf-zarr makes of it."""
    place = tmp_path_factory.mktemp("exported")
    source = _file(place / "a.nwb", with_members=False)
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    environment.pop("PYTHONPATH", None)
    for release in PEERS:
        arguments = [peer_python(release), "-c", EXPORT, str(source), str(place / release)]
        subprocess.run(arguments, check=True, timeout=600, env=environment)
    yield source, {release: place / release for release in PEERS}


@pytest.mark.slow  # it makes environments the first time
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("release", PEERS)
def test_what_hdmf_zarr_exports_has_no_differences(
    exported: tuple[Path, dict[str, Path]], tmp_path: Path, release: str
) -> None:
    source, stores = exported
    assert chunkwise.diff(source, stores[release]) == []
    assert chunkwise.diff(stores[release], source) == []
    for format in ("zarr2", "zarr3", "n5"):
        convert(stores[release], tmp_path / format, format=format)  # type: ignore[arg-type]
        assert chunkwise.diff(source, tmp_path / format) == []
        assert chunkwise.diff(tmp_path / format, stores[release]) == []
    with NWBZarrIO(stores[release]) as io:
        assert io.read().acquisition["large"].data.shape == LARGE.shape


@pytest.mark.slow  # it makes environments the first time
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("release", PEERS)
@pytest.mark.parametrize(
    "change", [c for c in CHANGES if not any(part in CHANGES[c][1] for part in OF_MEMBERS)]
)
def test_each_change_of_what_hdmf_zarr_exports_is_one_difference(
    exported: tuple[Path, dict[str, Path]], tmp_path: Path, release: str, change: str
) -> None:
    source, stores = exported
    changed = _changed(source, tmp_path / "b.nwb", change)
    _check(chunkwise.diff(stores[release], changed), change)
    _check(chunkwise.diff(changed, stores[release]), change)


def test_a_reference_to_what_is_gone_is_a_difference(
    source: Path, converted: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copy(source, tmp_path / "b.nwb")
    with h5py.File(tmp_path / "b.nwb", "r+") as file:
        del file[MASK]
    gone, broken = chunkwise.diff(converted["zarr3"], tmp_path / "b.nwb")
    assert (gone.name, gone.what) == (MASK, "structure")
    assert (broken.name, broken.what) == (f"{MASK}_index", "attribute")
    assert "that is gone" in str(broken)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_other_trees_with_an_attribute_of_that_name_are_no_files_of_hdmf(tmp_path: Path, format: Any) -> None:
    for name in ("a", "b"):
        group = chunkwise.open_group(tmp_path / name, "w", format=format)
        group.attrs["data_type"] = "image"
        group.create_array("x", np.arange(3.0))
        group["x"].attrs["_DTYPE"] = name  # which means nothing here
    (found,) = chunkwise.diff(tmp_path / "a", tmp_path / "b")
    assert (found.name, found.what) == ("x", "attribute")
