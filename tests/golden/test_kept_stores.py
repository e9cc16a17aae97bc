"""Every version reads what all earlier ones wrote, and goes on with the work that they left.

The archives in `stores` have the stores, and what was read from them when they were made
(`tests.golden.kept_stores`).
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden.kept_stores import ARCHIVES, KINDS, PLACE, content, unpack

import chunkwise as cw
from chunkwise.errors import FailedPreconditionError, NotFoundError
from chunkwise.version import __version__

VERSIONS = sorted(path.stem for path in ARCHIVES.glob("*.zip"))
LIMIT = 2 << 20


def manifest_of(version: str) -> dict[str, Any]:
    with zipfile.ZipFile(ARCHIVES / f"{version}.zip") as archive:
        return json.loads(archive.read("manifest.json"))


THINGS = [
    (version, kind, name)
    for version in VERSIONS
    for kind in KINDS
    for name in manifest_of(version).get(kind, ())
]
UNFINISHED = [(version, name) for version in VERSIONS for name in manifest_of(version)["unfinished"]]


def has_options(version: str, name: str) -> bool:
    """Return whether other options can be given, which don't start the work again."""
    return "overwrite" not in manifest_of(version)["unfinished"][name].get("options", {"overwrite": None})


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folder of each version's stores, whose documents name this place and this machine."""
    folders = {}
    for version in VERSIONS:
        folder = folders[version] = tmp_path_factory.mktemp("stores")
        unpack(ARCHIVES / f"{version}.zip", folder)
    return folders


@pytest.mark.parametrize("version", VERSIONS)
def test_every_array_is_read(unpacked: dict[str, Path], version: str) -> None:
    folder = unpacked[version]
    arrays = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["arrays"]
    different = {}
    for name, known in arrays.items():
        spec = known.pop("spec")
        found = json.loads(json.dumps(content(cw.open(spec).result().read().result())))
        if found != known:
            different[name] = (known, found)
    assert not different
    assert len(arrays) > 180


@pytest.mark.parametrize(("version", "kind", "name"), THINGS)
def test_everything_is_read(unpacked: dict[str, Path], version: str, kind: str, name: str) -> None:
    known = manifest_of(version)[kind][name]
    place = unpacked[version] / known["path"]
    found = json.loads(json.dumps(KINDS[kind][1](place)).replace(str(unpacked[version]), PLACE))
    assert found == known["known"]


@pytest.mark.parametrize(("version", "name"), [(v, name) for v, kind, name in THINGS if kind == "trees"])
def test_every_tree_is_whole(unpacked: dict[str, Path], version: str, name: str) -> None:
    reports = list(cw.verify(unpacked[version] / manifest_of(version)["trees"][name]["path"]))
    assert reports and not [report for report in reports if report.bad]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_kept_fingerprints_are_those_of_the_values(
    unpacked: dict[str, Path], version: str, format: str
) -> None:
    (report,) = cw.verify(unpacked[version] / f"trees/kept {format}")
    assert report.fingerprint is True


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_nwb_files_are_read_as_objects(unpacked: dict[str, Path], version: str, format: str) -> None:
    from chunkwise.hdmf import NWBZarrIO

    with NWBZarrIO(unpacked[version] / f"trees/nwb {format}") as io:
        nwb = io.read()
        assert list(nwb.acquisition["table"]["words"].data[:]) == ["a", "", "日本"]
        raw = nwb.acquisition["raw"]
        assert raw.data.shape == (12, 2) and list(raw.electrodes.data[:]) == [0, 2]
        assert nwb.electrodes["group"][0] is nwb.electrode_groups["shank"]
        assert io.broken_links == []


@pytest.mark.parametrize(("version", "name"), [(v, n) for v, n in UNFINISHED if has_options(v, n)])
def test_unfinished_work_is_not_mixed_with_other(
    unpacked: dict[str, Path], tmp_path: Path, version: str, name: str
) -> None:
    """Other options are refused with the name of the option, and nothing is changed."""
    how = json.loads((unpacked[version] / "manifest.json").read_text(encoding="utf-8"))["unfinished"][name]
    target = tmp_path / Path(how["target"]).name
    shutil.copytree(how["target"], target)
    for staged in Path(how["target"]).parent.glob(f".{target.name}.chunkwise-new*"):
        shutil.copytree(staged, tmp_path / staged.name)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other: dict[str, Any] = {"codec": "gzip:1"}
    if how["call"] == "downsample_pyramid":
        other = {"method": "max"}
    if how["options"].get("format") == "neuroglancer_precomputed":
        other = {"codec": {"encoding": "png"}}
    with pytest.raises(FailedPreconditionError, match=r"--(method|codec)"):
        made = getattr(cw, how["call"])(how["source"], target, resume=True, **{**how["options"], **other})
        if how["call"] == "downsample_pyramid":
            made.result()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def continued(folder: Path, how: dict[str, Any]) -> tuple[Any, Any]:
    """Go on with unfinished work; return what was made, and what should be."""
    target = Path(how["target"])
    if how["call"] == "append":
        rows = cw.open_array(target).read().result()
        cw.open_array(target, mode="r+").append(rows[:2])
        whole = cw.open_array(folder / "unfinished/source").read().result()
        wanted = np.concatenate([whole, whole[:3], whole[:2]] if how["rows"] == 27 else [whole, whole[:2]])
        return cw.open_array(target).read().result(), wanted
    if how["call"] == "migrate":
        cw.migrate(target, apply=True)
        group = cw.open_group(target)
        assert group.format == "zarr3"
        return group["a"].read().result(), cw.open_array(folder / "unfinished/source").read().result()
    made = getattr(cw, how["call"])(how["source"], target, resume=True, **how["options"])
    if how["call"] == "downsample_pyramid":
        made.result()
        target = target / "0"
    if how["call"] == "copy_tree" and "part" in how["options"]:
        cw.copy_tree(how["source"], target, resume=True, **{**how["options"], "part": "2/2"})
    if how["call"] == "copy_tree":
        assert cw.open_group(target).attrs.asdict() == {"title": "t"}
        assert cw.diff(how["source"], target) == []
        target, how = target / "a", {**how, "source": f"{how['source']}/a"}
    found, wanted = cw.open_array(target).read().result(), cw.open_array(how["source"]).read().result()
    if how["options"].get("format") == "neuroglancer_precomputed":  # x, y, z, channel
        found = found[..., 0, 0].T
    return found, wanted


@pytest.mark.parametrize(("version", "name"), UNFINISHED)
def test_unfinished_work_is_gone_on_with(unpacked: dict[str, Path], version: str, name: str) -> None:
    """The processes that began it are dead, which is seen at once on the same machine."""
    folder = unpacked[version]
    how = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["unfinished"][name]
    if how["call"] == "open":
        with pytest.raises(NotFoundError, match=r"its writing was interrupted .*chunkwise-unfinished"):
            cw.hdmf.open_store(how["target"])
        return
    found, wanted = continued(folder, how)
    assert np.array_equal(found, wanted)
    left = list(Path(how["target"]).rglob(".chunkwise*"))
    assert left == []


def test_the_archives_are_small_and_one_is_of_this_version() -> None:
    assert __version__ in VERSIONS
    assert all(path.stat().st_size < LIMIT for path in ARCHIVES.iterdir())
