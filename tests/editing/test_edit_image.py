"""Edits of images: in every convention, each change is read back, and nothing else changes."""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failing_store import FailingStore, contents, place_in

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import DataCorruptionError, InvalidArgumentError, StorageError, UnsupportedError

VALUES = np.random.default_rng(0).integers(0, 60000, (8, 20, 24)).astype("u2")


def _base(path: Path, convention: str = "ome-ngff-0.5", **options: Any) -> Path:
    array = cw.array(VALUES)
    how = {"units": ["4 um", "2 um", "2 um"], "levels": 2, "factors": [2, 2, 2], "axes": ["z", "y", "x"]}
    cw.downsample_pyramid(array, path, convention=convention, chunks=[8, 8, 8], **{**how, **options}).result()
    return path


def _with_whole(path: Path) -> Path:
    """An image whose levels have a transformation in common."""
    _base(path)
    group = cw.open_group(path, "r+")
    entry = group.attrs["ome"]["multiscales"][0]
    steps = [{"type": "scale", "scale": [2.0, 2.0, 2.0]}, {"type": "translation", "translation": [5.0, 0, 1]}]
    ome = group.attrs["ome"]
    group.attrs["ome"] = {**ome, "multiscales": [{**entry, "coordinateTransformations": steps}]}
    return path


def _copied(path: Path, layout: str) -> Path:
    _base(path / "base.zarr")
    assert main(["cp", "-r", str(path / "base.zarr"), str(path / "a.n5"), "--layout", layout, "--quiet"]) == 0
    return path / "a.n5"


def _with_times(path: Path) -> Path:
    """An image of BigDataViewer at two times."""
    how = {"units": [None, "4 um", "2 um", "2 um"], "axes": ["t", "z", "y", "x"], "factors": [1, 2, 2, 2]}
    cw.downsample_pyramid(cw.array(np.stack([VALUES, VALUES])), path / "base.zarr", levels=2, **how).result()
    assert main(["cp", "-r", f"{path}/base.zarr", f"{path}/a.n5", "--layout", "bdv", "--quiet"]) == 0
    return path / "a.n5"


def _precomputed(path: Path) -> Path:
    kvstore = {"driver": "file", "path": f"{path}/"}
    for number, factor in enumerate((1, 2)):
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": kvstore,
            "scale_index": number,
            "scale_metadata": {
                "resolution": [4.0 * factor, 4.0 * factor, 40.0 * factor],
                "size": [24 // factor, 20 // factor, 8 // factor],
                "voxel_offset": [8 // factor, 0, 0],
                "encoding": "raw",
                "chunk_size": [8, 8, 8],
            },
            "multiscale_metadata": {"data_type": "uint16", "num_channels": 1, "type": "image"},
        }
        if number:
            spec.pop("scale_index")
        cw.open(spec, create=True).result()
    return path


KINDS = {
    "ome-ngff-0.5": lambda path: _base(path / "a.zarr"),
    "ome-ngff-0.4": lambda path: _base(path / "a.zarr", "ome-ngff-0.4"),
    "whole": lambda path: _with_whole(path / "a.zarr"),
    "n5-viewer": lambda path: _base(path / "a.n5", "n5-viewer"),
    "n5-viewer, stride": lambda path: _base(path / "a.n5", "n5-viewer", method="stride"),
    "cosem": lambda path: _base(path / "a.n5", "cosem"),
    "paintera": lambda path: _copied(path, "paintera"),
    "paintera data": lambda path: _copied(path, "paintera") / "data",
    "bdv": lambda path: _copied(path, "bdv") / "setup0",
    "bdv timepoint": lambda path: _copied(path, "bdv") / "setup0/timepoint0",
    "bdv, times": lambda path: _with_times(path) / "setup0",
    "bdv, one of two times": lambda path: _with_times(path) / "setup0/timepoint1",
    "precomputed": lambda path: _precomputed(path / "a"),
}
CHANGES: dict[str, dict[str, Any]] = {
    "scale": {"scale": {"x": 0.3, "z": 1.7}},
    "scale with a unit": {"scale": {"x": "300 nm"}},
    "units": {"units": {"x": "nm", "y": "nm", "z": "nm"}},
    "translation": {"translation": {"y": 12.5, "x": -3.25}},
    "all": {
        "scale": {"x": 1e-3, "y": 2e-3, "z": 0.04},
        "units": {"x": "mm", "y": "mm", "z": "mm"},
        "translation": {"x": 0.1, "y": 0.2, "z": 0.3},
    },
}


def _files(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


# A precomputed volume has sizes of voxels in nanometres, at whole voxels of an offset.
REFUSED = {("precomputed", change) for change in ("translation", "all")}


@pytest.mark.parametrize(("kind", "change"), sorted(REFUSED))
def test_what_a_convention_cannot_say_is_refused(kind: str, change: str, tmp_path: Path) -> None:
    place = KINDS[kind](tmp_path)
    files = _files(tmp_path)
    with pytest.raises(UnsupportedError, match=r"translation|units"):
        cw.edit_image(place, **CHANGES[change])
    assert _files(tmp_path) == files


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("kind", "change"),
    [(kind, change) for kind in KINDS for change in CHANGES if (kind, change) not in REFUSED],
)
def test_it_is_read_back(kind: str, change: str, tmp_path: Path) -> None:
    place, given = KINDS[kind](tmp_path), CHANGES[change]
    before, files = cw.open_multiscale(place), _files(tmp_path)
    made = cw.edit_image(place, **given)
    after = cw.open_multiscale(place)
    names = [axis.name for axis in before.axes]
    for dim, name in enumerate(names):
        unit = before.axes[dim].unit
        wanted = given.get("scale", {}).get(name, before.scales[0][dim])
        if isinstance(wanted, str):
            wanted = 300.0 if unit == "nm" else 0.3
        factor = wanted / before.scales[0][dim]
        start = given.get("translation", {}).get(name, before.translations[0][dim])
        assert after.axes[dim].unit == given.get("units", {}).get(name, unit)
        for level in range(len(before.levels)):
            moved = start + (before.translations[level][dim] - before.translations[0][dim]) * factor
            if "translation" not in given and kind == "precomputed":
                moved = before.translations[level][dim] * factor
            assert after.scales[level][dim] == pytest.approx(before.scales[level][dim] * factor, rel=1e-12)
            assert after.translations[level][dim] == pytest.approx(moved, rel=1e-9, abs=1e-9)
    assert (made.scales, made.translations, made.axes) == (after.scales, after.translations, after.axes)
    for level, (old, new) in enumerate(zip(before.levels, after.levels, strict=True)):
        np.testing.assert_array_equal(old, new)
        units = [unit for unit in new.dimension_units if unit is not None]
        assert all(unit.multiplier in after.scales[level] for unit in units)
    changed = {path.name for path, value in _files(tmp_path).items() if files.get(path) != value}
    documents = {"zarr.json", ".zattrs", "attributes.json", "info", "a.xml", ".zmetadata"}
    # It has nanometres already.
    assert changed or (kind, change) == ("precomputed", "units")
    assert changed <= documents
    cw.edit_image(place, **given)  # again: nothing changes any more
    assert cw.open_multiscale(place).scales == after.scales


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_channels(version: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    values = np.arange(3 * 8 * 8, dtype="u1").reshape(3, 8, 8)
    made = cw.downsample_pyramid(
        cw.array(values), path, axes=["c", "y", "x"], levels=1, convention=f"ome-ngff-{version}"
    )
    made.result()
    image = cw.edit_image(path, channels=["DAPI", "GFP", "RFP"])
    assert [channel.label for channel in image.channels] == ["DAPI", "GFP", "RFP"]
    image = cw.edit_image(path, channels={"GFP": "mCherry"}, colors={0: "0000ff", "RFP": "#FF0000"})
    assert [channel.label for channel in image.channels] == ["DAPI", "mCherry", "RFP"]
    assert [channel.color for channel in image.channels] == ["0000FF", "00FF00", "FF0000"]
    assert all(channel.window is not None and channel.window.end is not None for channel in image.channels)
    for wrong in (
        {"channels": ["a"]},
        {"channels": {3: "a"}},
        {"colors": {0: "blue"}},
        {"channels": {"x": "y"}},
    ):
        files = _files(tmp_path)
        with pytest.raises(InvalidArgumentError, match=r"channels|colors"):
            cw.edit_image(path, **wrong)  # type: ignore[arg-type]
        assert _files(tmp_path) == files


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"scale": {"q": 1}}, "no axis 'q' among z, y, x"),
        ({"scale": [1, 2]}, "each of the axes z, y, x"),
        ({"scale": {"x": 0}}, "positive size"),
        ({"scale": {"x": "3 s"}}, "s"),
        ({"scale": {"x": True}}, "a number"),
        ({"translation": {"x": float("nan")}}, "a number"),
        ({"units": {"x": 3}}, "text or None"),
        ({"units": {"x": "2 nm"}}, "axis x, without a size, but received '2 nm'"),
        ({"units": ["nm", "nm", "1nm"]}, "axis x, without a size"),
        ({"scale": {"x": 7}, "channels": {5: "a"}}, "number of a channel"),
        ({"channels": [3]}, "channels: expected text for channel 0, but received 3"),
        ({"colors": [""]}, "colors: channel 0: expected six hexadecimal digits"),
        ({"name": "a"}, "a name is for one of several"),
    ],
)
def test_a_wrong_value_changes_nothing(given: dict[str, Any], match: str, tmp_path: Path) -> None:
    path = _base(tmp_path / "a.zarr")
    files = _files(tmp_path)
    with pytest.raises(InvalidArgumentError, match=match):
        cw.edit_image(path, **given)
    assert _files(tmp_path) == files


EXTREMES: list[tuple[dict[str, Any], str]] = [
    ({"scale": {"x": 10**400}}, "scale: x: expected a number, but received 1000"),
    ({"translation": {"x": -(10**400)}}, "translation: x: expected a number, but received -1000"),
    ({"scale": {"x": 1.5e308}}, "would have voxels of (inf|1.5e.308) at .* along x, which no number can say"),
    ({"scale": {"x": 5e-324}}, "would have voxels of 0.0 at"),
    ({"scale": {"x": 1e-310, "z": 2.0}}, "would have voxels of 1e-310 at"),
    ({"scale": {"x": 1.5e307}, "translation": {"x": 1.79e308}}, "at inf along x"),
]


@pytest.mark.parametrize("kind", ["ome-ngff-0.4", "whole", "n5-viewer", "cosem", "paintera", "bdv"])
def test_numbers_that_cannot_be_stored_change_nothing(kind: str, tmp_path: Path) -> None:
    place = KINDS[kind](tmp_path)
    files = _files(tmp_path)
    for given, match in EXTREMES:
        with pytest.raises(InvalidArgumentError, match=match):
            cw.edit_image(place, **given)
        assert _files(tmp_path) == files, given


def test_a_shift_of_less_than_a_millionth_of_a_voxel_is_none(tmp_path: Path) -> None:
    place = KINDS["n5-viewer"](tmp_path)
    assert cw.edit_image(place, translation={"x": 1e-7}).translations[0][0] == 0


def _in_memory(kind: str, path: Path) -> tuple[MemoryStore, str]:
    """Return a store with an image, and the path of the image there."""
    place, store = KINDS[kind](path), MemoryStore()
    for file, value in _files(path).items():
        store.write(file.relative_to(path).as_posix(), value)
    return store, f"{place.relative_to(path).as_posix()}/"


@pytest.mark.parametrize(
    "kind", ["ome-ngff-0.4", "n5-viewer", "cosem", "paintera data", "bdv", "precomputed"]
)
def test_an_image_is_read_whole_or_not_at_all(kind: str, tmp_path: Path) -> None:
    """A level that could not be read just now is not left out."""
    store, name = _in_memory(kind, tmp_path)
    counting = FailingStore(store, _fail, 0)
    levels = cw.open_multiscale(place_in(counting, name))._metadata.levels
    for at in range(1, counting.n_calls + 1):
        with contextlib.suppress(StorageError):
            found = cw.open_multiscale(place_in(FailingStore(store, _fail, at), name))
            assert found._metadata.levels == levels, at


@pytest.mark.parametrize("kind", ["ome-ngff-0.4", "n5-viewer", "cosem", "paintera", "bdv"])
def test_a_store_that_fails_is_changed_everywhere_or_nowhere(kind: str, tmp_path: Path) -> None:
    store, name = _in_memory(kind, tmp_path)
    before = contents(store)
    counting = FailingStore(store, _fail, 0)
    cw.edit_image(place_in(counting, name), **CHANGES["all"])
    after = contents(store)
    assert after != before
    first = next(at for at, (call, _) in enumerate(counting.calls, 1) if call == "write")
    for at in range(first, counting.n_calls + 1):
        for key, value in before.items():
            store.write(key, value)
        with contextlib.suppress(StorageError):
            cw.edit_image(place_in(FailingStore(store, _fail, at), name), **CHANGES["all"])
        found = {key: _json_or_bytes(value) for key, value in contents(store).items()}
        assert found in [{k: _json_or_bytes(v) for k, v in one.items()} for one in (before, after)], at


def _fail() -> None:
    raise StorageError("no room is left")


def _json_or_bytes(value: bytes) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


@pytest.mark.parametrize("kind", ["n5-viewer", "paintera", "bdv"])
def test_a_change_that_is_not_read_back_is_not_made(kind: str, tmp_path: Path) -> None:
    """N5 has no unit for pixels: readers take them for none."""
    place = KINDS[kind](tmp_path)
    files = _files(tmp_path)
    with pytest.raises(DataCorruptionError, match=r"member says otherwise: .* in \['', '', ''\], not"):
        cw.edit_image(place, scale={"x": 3}, units={"x": "pixel", "y": "pixel", "z": "pixel"})
    assert _files(tmp_path) == files


@pytest.mark.parametrize("first", [{}, {"resolution": [1.0, 1.0, 1.0]}])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pixelResolution": [1.0, 1.0, 1.0]},
        {"pixelResolution": {"unit": "um"}},
        {"pixelResolution": {"unit": "um", "dimensions": [1.0, 1.0, 1.0]}},
        {"pixelResolution": None, "resolution": None, "units": None},
        {"unit": None},
        {"units": []},
        {"units": ["um", "um", "um"]},
    ],
)
@pytest.mark.parametrize("path", ["a.n5", "a.n5/setup0/timepoint0"])
def test_members_of_n5_that_say_only_a_part(
    path: str, attributes: dict[str, Any], first: dict[str, Any], tmp_path: Path
) -> None:
    """What no member has is added, whichever others are there: of a group, or of a level."""
    group = cw.create_group(tmp_path / path, format="n5")
    group.attrs.update(attributes)
    for number in range(2):
        group.create_array(f"s{number}", VALUES[:: 2**number, :: 2**number, :: 2**number])
    group["s0"].attrs.update(first)
    group["s1"].attrs.update({"units": ["m", "m", "m"], "resolution": [7.0, 7.0, 7.0]})  # nobody reads it
    image = cw.edit_image(tmp_path / path, scale=[2, 3, 4], units=["nm", "nm", "nm"])
    assert image.scales == ((2, 3, 4), (4, 6, 8)) and [axis.unit for axis in image.axes] == ["nm"] * 3
    image = cw.edit_image(tmp_path / path, units=[None, None, None])
    assert image.scales == ((2, 3, 4), (4, 6, 8)) and [axis.unit for axis in image.axes] == [""] * 3


_PLACE, _UNITS = {"scale": {"x": 3}, "translation": {"x": 5}}, {"units": dict.fromkeys("xyz", "nm")}
_REGISTRATION = "<ViewRegistration .*?</ViewRegistration>"


@pytest.mark.parametrize(
    ("old", "new", "size", "given"),
    [
        ('setup="0"', 'setup="00"', (2, 2, 4), _PLACE),
        ("<id>0</id>", "<id> 000 </id>", (2, 2, 4), {**_PLACE, **_UNITS}),
        ("<affine>.*?</affine>", "", (1, 1, 1), _PLACE),
        ("<ViewTransform.*?</ViewTransform>", "", (1, 1, 1), _PLACE),
        (_REGISTRATION, "", (2, 2, 4), {"scale": {"x": 3}}),
        (f"<voxelSize>.*?</voxelSize>|{_REGISTRATION}", "", (1, 1, 1), {"scale": {"x": 3}, **_UNITS}),
        (f"<size>[^<]*[.].*?</size>|{_REGISTRATION}", "", (1, 1, 1), {"scale": {"x": 3}, **_UNITS}),
        ("<unit>.*?</unit>", "", (2, 2, 4), {**_PLACE, **_UNITS}),
    ],
)
def test_files_of_bigdataviewer_that_lack_members(
    old: str, new: str, size: tuple[float, ...], given: dict[str, Any], tmp_path: Path
) -> None:
    place = KINDS["bdv"](tmp_path)
    file = place.parent.with_suffix(".xml")
    text, n = re.subn(old, new, file.read_text(), flags=re.DOTALL)
    assert n
    file.write_text(text)
    before = cw.open_multiscale(place)
    image = cw.edit_image(place, **given)
    unit = "nm" if "units" in given else before.axes[0].unit
    assert image.scales[0] == (3, *size[1:]) and [axis.unit for axis in image.axes] == [unit] * 3
    assert image.translations[0] == (5 if "translation" in given else 0, 0, 0)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (_REGISTRATION, "", "no ViewRegistration of setup 0"),
        ("<ViewSetup>.*?</ViewSetup>", "", "no ViewSetup of setup 0"),
        ("<id>0</id>", "<id>²</id>", "ViewSetup: id: expected a number, but found '²'"),
        ("<id>0</id>", f"<id>{'9' * 5000}</id>", "ViewSetup: id: expected a number, but found '999"),
        ("<affine>.*?</affine>", "<affine>1 0 x</affine>", "affine: expected 12 numbers, but found '1 0 x'"),
    ],
)
def test_files_of_bigdataviewer_that_have_no_place_for_it(
    old: str, new: str, match: str, tmp_path: Path
) -> None:
    place = KINDS["bdv"](tmp_path)
    file = place.parent.with_suffix(".xml")
    file.write_text(re.sub(old, new, file.read_text(), flags=re.DOTALL), encoding="utf-8")
    files = _files(tmp_path)
    with pytest.raises((UnsupportedError, InvalidArgumentError), match=match):
        cw.edit_image(place, translation={"x": 5})
    assert _files(tmp_path) == files


@pytest.mark.parametrize("ending", ["", "|zip:"])
def test_in_an_archive(ending: str, tmp_path: Path) -> None:
    _base(tmp_path / "a.zarr")
    assert main(["zip", str(tmp_path / "a.zarr"), str(tmp_path / "a.ozx")]) == 0
    names = zipfile.ZipFile(tmp_path / "a.ozx").namelist()
    assert names[:4] == ["zarr.json", "0/zarr.json", "1/zarr.json", "2/zarr.json"]
    assert names[4:] == sorted(names[4:])
    place = f"{tmp_path}/a.ozx{ending}"
    assert cw.edit_image(place, scale={"x": "3 um"}).scales == cw.open_multiscale(place).scales
    assert cw.open_multiscale(place).scales[1] == (8.0, 4.0, 6.0)


def _edited(archive: str, source: Path) -> None:
    assert main(["zip", str(source), archive]) == 0
    cw.edit_image(archive, scale={"x": "3 um"}, channels=["DAPI"])


def _with_attributes(archive: str, source: Path) -> None:
    assert main(["zip", str(source), archive]) == 0
    assert main(["attrs", f"{archive}|zip:", "set", "note", "1"]) == 0


def _copied_twice(archive: str, source: Path) -> None:
    for _ in range(2):
        assert main(["cp", "-r", str(source), f"{archive}|zip:", "--overwrite", "--quiet"]) == 0


def _pyramid(archive: str, source: Path) -> None:
    assert main(["pyramid", f"{source}/0", f"{archive}|zip:", "--levels", "2", "--quiet"]) == 0


def _created(archive: str, source: Path) -> None:
    cw.copy_tree(source, f"{archive}|zip:")
    group = cw.open_group(f"{archive}|zip:", "r+")
    group.create_array("more", VALUES)
    del group["more"]


@pytest.mark.parametrize("make", [_edited, _with_attributes, _copied_twice, _pyramid, _created])
def test_an_archive_of_an_image_begins_with_its_documents(
    make: Callable[[str, Path], None], tmp_path: Path
) -> None:
    make(f"{tmp_path}/a.ozx", _base(tmp_path / "a.zarr"))
    names = zipfile.ZipFile(tmp_path / "a.ozx").namelist()
    assert names[:4] == ["zarr.json", "0/zarr.json", "1/zarr.json", "2/zarr.json"]
    assert names[4:] == sorted(names[4:])
    image = cw.open_multiscale(tmp_path / "a.ozx")
    assert isinstance(image, cw.MultiscaleImage) and image.convention == "ome-ngff-0.5"


def test_times_have_no_place_in_bdv(tmp_path: Path) -> None:
    place = _with_times(tmp_path) / "setup0"
    files = _files(tmp_path)
    for given in ({"scale": {"t": 2}}, {"units": {"t": "s"}}, {"translation": {"t": 1}}):
        with pytest.raises(UnsupportedError, match="distance and start of times"):
            cw.edit_image(place, **given)  # type: ignore[arg-type]
    assert _files(tmp_path) == files


def test_what_a_convention_has_no_place_for(tmp_path: Path) -> None:
    n5 = _base(tmp_path / "a.n5", "n5-viewer")
    old = cw.create_group(tmp_path / "old.zarr", format="zarr2")
    old.create_array("0", VALUES)
    old.attrs["multiscales"] = [{"version": "0.3", "axes": ["z", "y", "x"], "datasets": [{"path": "0"}]}]
    files = _files(tmp_path)
    with pytest.raises(UnsupportedError, match="no place for names and colours"):
        cw.edit_image(n5, scale={"x": 3}, channels=["a"])
    with pytest.raises(UnsupportedError, match="one unit for all axes of space"):
        cw.edit_image(n5, units={"x": "nm"})
    with pytest.raises(UnsupportedError, match=r"0\.3 has no sizes"):
        cw.edit_image(tmp_path / "old.zarr", scale={"x": 3})
    assert _files(tmp_path) == files
    assert cw.edit_image(tmp_path / "old.zarr", channels=["DAPI"]).channels[0].label == "DAPI"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _base(tmp_path / "a.zarr")
    assert main(["image", str(path)]) == 0
    assert "x" in capsys.readouterr().out
    assert main(["image", str(path), "--scale", "z=40 nm,y=4,x=4", "--unit", "nm", "--channels", "DAPI"]) == 0
    out = capsys.readouterr().out
    assert "DAPI" in out and "40000" not in out
    assert main(["image", str(path), "--translation", "0,1,-2.5", "--colors", "0=00FF00", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["axes"] == [
        {"name": name, "type": "space", "unit": "nm", "scale": size, "translation": at}
        for name, size, at in (("z", 40.0, 0.0), ("y", 4.0, 1.0), ("x", 4.0, -2.5))
    ]
    assert shown["channels"] == [{"label": "DAPI", "color": "00FF00"}]
    assert main(["image", str(path), "--scale", "q=3"]) == 1
    assert main(["image", str(path), "--scale", "a,b,c"]) == 2


@pytest.mark.parametrize(
    ("omero", "says"),
    [
        ([1], "omero: expected an object"),
        ({"channels": "ab"}, "omero: channels: expected a list"),
        ({"channels": {"a": 1}}, "omero: channels: expected a list"),
        ({"channels": ["a", 3]}, r"omero: channels\[0\]: expected an object"),
    ],
)
@pytest.mark.parametrize("given", [{"channels": {0: "x"}}, {"colors": {0: "00FF00"}}], ids=["name", "color"])
def test_channels_beside_damaged_ones(tmp_path: Path, omero: Any, says: str, given: dict[str, Any]) -> None:
    """What is stored is named, and nothing is written; sizes can be changed beside it."""
    group = cw.open_group(_base(tmp_path / "a.zarr"), "r+")
    group.attrs["ome"] = {**group.attrs["ome"], "omero": omero}
    before = (tmp_path / "a.zarr/zarr.json").read_bytes()
    with pytest.raises(InvalidArgumentError, match=says):
        cw.edit_image(tmp_path / "a.zarr", **given)
    assert (tmp_path / "a.zarr/zarr.json").read_bytes() == before
    assert cw.edit_image(tmp_path / "a.zarr", scale={"x": 3.0}).scales[0][2] == 3.0
    assert cw.open_group(tmp_path / "a.zarr").attrs["ome"]["omero"] == omero


@pytest.mark.parametrize("label", [[1], "x", {"colors": []}])
def test_new_levels_of_labels_leave_their_attributes(tmp_path: Path, label: Any) -> None:
    """Those that are no object stay as they are."""
    path = _base(tmp_path / "a.zarr", labels=True)
    group = cw.open_group(path, "r+")
    group.attrs["ome"] = {**group.attrs["ome"], "image-label": label}
    cw.downsample_pyramid(path / "0", levels=1, overwrite=True).result()
    assert cw.open_group(path).attrs["ome"]["image-label"] == label
