"""``*.ozx``, an archive of OME-Zarr, is a destination like any other: Zarr v3, nothing compressed twice."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import dask.array
import numpy as np
import pytest
import xarray
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError
from chunkwise.xarray import write_dataset

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "i.zarr"
    cw.downsample_pyramid(cw.array(VALUES), path, levels=1, sync=False).result()
    return path


def _command(*words: str) -> Callable[[Path, str], None]:
    def run(source: Path, out: str) -> None:
        assert main([word.format(source=source, out=out) for word in words]) == 0

    return run


def _dask(source: Path, out: str) -> None:
    cw.from_dask(dask.array.from_array(VALUES, chunks=(2, 6, 8)), out, scheduler="synchronous")


def _group(source: Path, out: str) -> None:
    with cw.open_group(out, "w-") as group:
        group.create_array("a/b", VALUES)


DOORS: dict[str, Callable[[Path, str], object]] = {
    "cp": _command("cp", "{source}/0", "{out}", "--quiet"),
    "cp -r": _command("cp", "-r", "{source}", "{out}", "--quiet"),
    "pyramid": _command("pyramid", "{source}/0", "{out}", "--levels", "1", "--quiet"),
    "create": _command("create", "{out}", "--shape", "4,6,8", "--dtype", "uint16"),
    "zip": _command("zip", "{source}", "{out}", "--quiet"),
    "copy": lambda source, out: cw.copy(source / "0", out),
    "copy_tree": lambda source, out: cw.copy_tree(source, out),
    "downsample_pyramid": lambda source, out: cw.downsample_pyramid(source, out, levels=1).result(),
    "create_array": lambda source, out: cw.create_array(out, VALUES),
    "open_group": _group,
    "from_dask": _dask,
    "write_dataset": lambda source, out: write_dataset(xarray.Dataset({"a": (("z", "y", "x"), VALUES)}), out),
}


def _arrays(node: zarr.Group | zarr.Array) -> list[zarr.Array]:
    return (
        [node] if isinstance(node, zarr.Array) else [a for _, a in sorted(node.members(None)) if _is_array(a)]
    )


def _is_array(node: object) -> bool:
    return isinstance(node, zarr.Array)


def _check(path: Path) -> list[str]:
    """Check an archive; return the names of its members."""
    with zipfile.ZipFile(path) as file:
        members = file.infolist()
        first = json.loads(file.read("zarr.json"))
        version = first.get("attributes", {}).get("ome", {}).get("version")
        assert (json.loads(file.comment)["ome"]["version"] if file.comment else None) == version
    names = [member.filename for member in members]
    assert all(member.compress_type == zipfile.ZIP_STORED for member in members)
    documents = [name for name in names if name.endswith("zarr.json")]
    assert names == [*documents, *sorted(name for name in names if name not in documents)]
    assert documents == sorted(documents, key=lambda name: (name.count("/"), name))
    return names


@pytest.mark.parametrize("door", DOORS)
def test_doors_write_archives(image: Path, tmp_path: Path, door: str) -> None:
    out = tmp_path / "o.ozx"
    DOORS[door](image, str(out))
    _check(out)
    arrays = _arrays(zarr.open(zarr.storage.ZipStore(out, mode="r"), mode="r"))
    expected = np.zeros_like(VALUES) if door == "create" else VALUES
    assert any(array.shape == VALUES.shape and (array[...] == expected).all() for array in arrays)
    assert not list(tmp_path.glob(".o.ozx*"))
    if door in ("cp -r", "pyramid", "copy_tree", "downsample_pyramid"):
        assert cw.open_multiscale(out).convention == "ome-ngff-0.5"
    before = out.read_bytes()
    with pytest.raises((AlreadyExistsError, AssertionError)):
        DOORS[door](image, str(out))
    assert out.read_bytes() == before


def test_other_formats_become_zarr_v3_or_are_refused(tmp_path: Path) -> None:
    old = tmp_path / "old.zarr"
    cw.downsample_pyramid(cw.array(VALUES), old, levels=1, convention="ome-ngff-0.4", sync=False).result()
    cw.copy_tree(old, tmp_path / "o.ozx")
    _check(tmp_path / "o.ozx")
    assert cw.open_multiscale(tmp_path / "o.ozx").convention == "ome-ngff-0.5"
    for format in ("zarr2", "n5"):
        with pytest.raises(InvalidArgumentError, match=r"\*\.ozx.* is Zarr v3, not"):
            cw.copy_tree(old, tmp_path / "p.ozx", format=format)
        with pytest.raises(InvalidArgumentError, match=r"\*\.ozx.* is Zarr v3, not"):
            cw.create_group(tmp_path / "p.ozx", format=format)
    assert not (tmp_path / "p.ozx").exists()


@pytest.mark.parametrize("ending", ["", "|zip:"])
def test_changes_of_archives_compress_nothing(image: Path, tmp_path: Path, ending: str) -> None:
    place = tmp_path / "o.ozx"
    assert main(["zip", str(image), str(place), "--quiet"]) == 0
    with zipfile.ZipFile(place) as file:
        chunks = {name: file.read(name) for name in file.namelist() if not name.endswith("json")}
    assert main(["attrs", f"{place}{ending}", "set", "note", "1"]) == 0
    cw.edit_image(f"{place}{ending}", scale={"x": "3 um"})
    with cw.open_group(f"{place}{ending}", "r+") as group:
        group.create_array("more", VALUES)
        del group["more"]
    assert cw.open_group(place).attrs["note"] == 1
    _check(place)
    with zipfile.ZipFile(place) as file:
        assert {name: file.read(name) for name in file.namelist() if not name.endswith("json")} == chunks
    assert cw.copy_tree(image, f"{place}{ending}", overwrite=True).n_arrays == 2
    _check(place)


def test_other_archives_keep_what_is_not_changed_as_it_is(image: Path, tmp_path: Path) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", compression) as file:
            for path in sorted(at for at in image.rglob("*") if at.is_file()):
                file.write(path, path.relative_to(image))
            before = {one.filename: (one.compress_type, one.CRC) for one in file.infolist()}
        assert main(["attrs", f"{tmp_path}/a.zip|zip:", "set", "note", "1"]) == 0
        with zipfile.ZipFile(tmp_path / "a.zip") as file:
            assert file.testzip() is None
            after = {one.filename: (one.compress_type, one.CRC) for one in file.infolist()}
        assert before.keys() == after.keys()
        changed = {name for name in before if before[name] != after[name]}
        assert changed == {"zarr.json"} or compression == zipfile.ZIP_BZIP2


def test_an_archive_of_which_all_is_deleted_is_gone(tmp_path: Path) -> None:
    cw.create_array(tmp_path / "o.ozx", VALUES)
    assert main(["rm", str(tmp_path / "o.ozx")]) == 0
    assert list(tmp_path.iterdir()) == []
    cw.create_array(tmp_path / "o.ozx", VALUES + 1)
    assert (cw.read(tmp_path / "o.ozx") == VALUES + 1).all()


def test_a_directory_of_that_name_stays_one(tmp_path: Path) -> None:
    (tmp_path / "o.ozx").mkdir()
    cw.create_group(tmp_path / "o.ozx", format="zarr3")
    assert (tmp_path / "o.ozx/zarr.json").is_file()


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_copy_of_many_chunks_is_made_beside_the_archive(tmp_path: Path) -> None:
    """Of which each write would replace the whole; it goes on where it was interrupted."""
    values = np.arange(2**20, dtype="uint32").reshape(1024, 1024)
    source = tmp_path / "s.zarr"
    cw.create_group(source).create_array("a", values, chunks=(64, 64))
    for out in (tmp_path / "o.ozx", f"{tmp_path}/a.zip|zip:", f"{tmp_path}/a.zip|zip:b/c/"):
        with pytest.raises(KeyboardInterrupt):
            cw.copy_tree(source, out, progress=_stop, memory="2MB")
        with pytest.raises(AlreadyExistsError, match="begun and not finished"):
            cw.copy_tree(source, out)
        cw.copy_tree(source, out, resume=True)
        assert cw.diff(source, out) == []
        assert cw.copy_tree(source, out, overwrite=True).n_arrays == 1 and cw.diff(source, out) == []
        assert not list(tmp_path.glob(".*"))
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        assert {"zarr.json", "a/zarr.json", "b/c/zarr.json", "b/c/a/zarr.json"} <= set(file.namelist())
    for overwrite in (False, True):
        made = cw.copy(source / "a", tmp_path / "r.ozx", overwrite=overwrite).array
        assert (made.read().result() == values).all()
    pyramid = cw.downsample_pyramid(source / "a", tmp_path / "p.ozx", axes=["y", "x"], levels=1).result()
    assert [level.shape for level in pyramid.levels] == [(1024, 1024), (512, 512)]
    assert (pyramid.levels[0].read().result() == values).all()
    with pytest.raises(InvalidArgumentError, match="which `chunkwise zip` puts into an archive"):
        cw.copy_tree(source, tmp_path / "q.ozx", part="1/2")
    assert not list(tmp_path.glob("*q.ozx"))
