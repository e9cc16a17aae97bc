"""What only lies above an array or group says of labels, a copy says by itself; nothing averages it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import xarray

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.notebook.slices import Slicer
from chunkwise.xarray import write_dataset

IDS = np.repeat(np.repeat(np.arange(0, 300, 25, "uint64").reshape(2, 2, 3), 3, 1), 3, 2)  # edges within 2 x 2
COLORS = [{"label-value": 25, "rgba": [1, 2, 3, 4]}]


def _ome(at: Path) -> Path:
    group = at / "i.zarr/labels/cells"
    cw.create_group(at / "i.zarr")
    cw.downsample_pyramid(cw.array(IDS), group, labels=True, levels=1, sync=False).result()
    ome = dict(cw.open_group(group).attrs["ome"])
    cw.open_group(group, "a").attrs["ome"] = {**ome, "image-label": {"colors": COLORS}}
    return group / "0"


def _listed(at: Path) -> Path:
    """Labels that only the list of the group above makes labels."""
    group = _ome(at).parent
    ome = dict(cw.open_group(group).attrs["ome"])
    del ome["image-label"]
    cw.open_group(group, "a").attrs["ome"] = ome
    return group / "0"


def _paintera(at: Path) -> Path:
    group = cw.open_group(at / "p.n5", "a", format="n5")
    group.create_array("v/data/s0", IDS.T)
    group["v"].attrs["painteraData"] = {"type": "label"}
    group["v/data"].attrs.update({"multiScale": True, "resolution": [4.0, 4.0, 40.0]})
    return at / "p.n5/v/data/s0"


def _volume(at: Path) -> Path:
    spec = {
        "driver": "neuroglancer_precomputed",
        "kvstore": f"file://{at}/volume/",
        "multiscale_metadata": {"type": "segmentation", "data_type": "uint64", "num_channels": 1},
        "scale_metadata": {"size": IDS.T.shape, "resolution": [4, 4, 40], "encoding": "raw"},
    }
    cw.open(spec, create=True).result()[..., 0] = IDS.T
    return at / "volume"


LEVELS: dict[str, Callable[[Path], Path]] = {
    "OME": _ome, "listed": _listed, "Paintera": _paintera, "precomputed": _volume,
}  # fmt: skip


def _cp(source: Path, out: Path, format: str) -> None:
    assert main(["cp", str(source), str(out), "--format", format, "--quiet"]) == 0


def _command(name: str) -> Callable[[Path, Path, str], object]:
    def run(source: Path, out: Path, format: str) -> None:
        assert main([name, str(source), str(out)]) == 0

    return run


def _moved(source: Path, out: Path, format: str) -> None:
    tree = next(at for at in source.parents if (at.parent / "labels") not in source.parents and at.suffix)
    group = cw.open_group(tree, "r+")
    group.move(str(source.relative_to(tree)), "moved/x")
    shutil.move(tree / "moved/x", out)


def _of_data(source: Path, out: Path, format: str) -> None:
    group = cw.create_group(out.parent / "g", format=format)
    group.create_dataset("x", data=cw.open(source, read=True).result())
    shutil.move(out.parent / "g/x", out)


def _into_group(source: Path, out: Path, format: str) -> None:
    cw.create_group(out.parent / "g", format="zarr3").copy(cw.open_array(source), "x")
    shutil.move(out.parent / "g/x", out)


def _stack(source: Path, out: Path, format: str) -> None:
    spec = out.parent / "stack.json"
    assert main(["stack", str(spec), str(source), str(source), "--stack", "0", "--json"]) == 0
    cw.copy(spec, out, format=format)


def _of_xarray(source: Path, out: Path, format: str) -> None:
    names = [name or f"d{i}" for i, name in enumerate(cw.open(source, read=True).result().domain.labels)]
    write_dataset(xarray.Dataset({"x": (names, cw.to_dask(source))}), out.parent / "g.zarr")
    shutil.move(out.parent / "g.zarr/x", out)


COPIES: dict[str, Callable[[Path, Path, str], object]] = {
    "copy": lambda source, out, format: cw.copy(source, out, format=format),
    "view": lambda source, out, format: cw.copy(cw.open_array(source)[1:], out, format=format),
    "cp": _cp,
    "cp of a region": lambda source, out, format: main(
        ["cp", str(source), str(out), "--format", format, "--quiet", "--region", "0:2,..."]
    ),
    "Group.copy": _into_group,
    "stack": _stack,
    "create_array": lambda source, out, format: cw.create_array(
        out, cw.open(source, read=True).result(), format=format
    ),
    "create_dataset": _of_data,
    "from_dask": lambda source, out, format: cw.from_dask(cw.to_dask(source), out),
    "create_array of dask": lambda source, out, format: cw.create_array(out, cw.to_dask(source).rechunk(2)),
    "dask of xarray": _of_xarray,
    "mv": _command("mv"),
    "Group.move": _moved,
    "zip": _command("zip"),
}
FORMATS = ("zarr3", "zarr2", "zarr1", "n5")


def test_what_dask_computes_of_labels_is_not_called_labels(tmp_path: Path) -> None:
    array = cw.to_dask(_ome(tmp_path))
    for number, computed in enumerate((array * 2, array > 3, array.max(axis=0), array.astype("f8"))):
        cw.from_dask(computed, tmp_path / f"{number}.zarr")
        assert "image-label" not in cw.open_array(tmp_path / f"{number}.zarr").attrs


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        at
        for at in product(LEVELS, COPIES)
        if at[0] != "precomputed" or at[1] not in ("Group.copy", "stack", "mv", "Group.move", "zip")
    ],
)  # a volume is no node, and a stack of volumes has two axes of channels
def test_the_copy_of_a_level_of_labels_is_labels(tmp_path: Path, kind: str, how: str) -> None:
    source = LEVELS[kind](tmp_path)
    for format in FORMATS if how == "copy" else ("n5",) if how == "cp" else ("zarr3",):
        out = tmp_path / f"copy.{format}"
        COPIES[how](source, out, format)
        image = cw.open_multiscale(out)
        assert image.is_labels
        assert bool(image.label_colors) == (kind == "OME")
        if how == "copy" and kind != "precomputed":  # whose units N5 has no place for
            assert cw.diff(source, out) == []
        made = cw.downsample_pyramid(
            out, tmp_path / f"p {format}", convention="ome-ngff-0.5", levels=1, sync=False
        ).result()
        assert np.isin(made.levels[1].read().result(), IDS).all()
        assert not any("averaged" in note for note in made.assumed)
        pyramid = cw.open_multiscale(tmp_path / f"p {format}")
        assert (pyramid.is_labels, pyramid.label_colors) == (True, image.label_colors)


def _nested(at: Path) -> Path:
    """Labels whose levels are in groups of their own, as ngff-zarr writes them."""
    group = cw.create_group(at / "i.zarr/labels/cells")
    group.create_array("scale0/image", IDS)
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    placed = [{"type": "scale", "scale": [1, 1, 1]}]
    levels = [{"path": "scale0/image", "coordinateTransformations": placed}]
    group.attrs["ome"] = {
        "version": "0.5",
        "image-label": {"colors": COLORS},
        "multiscales": [{"axes": axes, "datasets": levels}],
    }
    return at / "i.zarr/labels/cells/scale0"


def _listing(at: Path) -> Path:
    return _listed(at).parent.parent


GROUPS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "in a list": (lambda at: _listed(at).parent, ""),
    "with a list": (_listing, "cells"),
    "of Paintera": (lambda at: _paintera(at).parent, ""),
    "of a level": (_nested, "image"),
}
TREES: dict[str, Callable[[Path, Path, str], object]] = {
    "copy_tree": lambda source, out, _: cw.copy_tree(source, out),
    "cp -r": lambda source, out, _: main(["cp", "-r", str(source), str(out), "--quiet"]),
    "cp -r to another format": lambda source, out, _: main(
        ["cp", "-r", str(source), str(out), "--quiet", "--format", "zarr2"]
    ),
    "mv": _command("mv"),
    "zip": _command("zip"),
}


@pytest.mark.each_once
@pytest.mark.parametrize(("kind", "how"), list(product(GROUPS, TREES)))
def test_what_a_group_above_makes_labels_stays_labels(tmp_path: Path, kind: str, how: str) -> None:
    make, path = GROUPS[kind]
    source = make(tmp_path)
    out = tmp_path / f"out{'.n5' if kind == 'of Paintera' and 'format' not in how else '.zarr'}"
    TREES[how](source, out, "")
    found = cw.open_group(out)
    assert cw.open_multiscale(found[path] if path else found).is_labels


def test_a_copy_of_a_list_of_labels_that_keeps_its_name_is_the_same(tmp_path: Path) -> None:
    source = _listing(tmp_path)
    cw.copy_tree(source, tmp_path / "o.zarr/labels")
    assert cw.diff(source, tmp_path / "o.zarr/labels") == []
    assert cw.open_multiscale(tmp_path / "o.zarr/labels/cells").is_labels


def test_labels_with_wrong_metadata_are_not_averaged(tmp_path: Path) -> None:
    group = _ome(tmp_path).parent
    ome = cw.open_group(group, "a").attrs["ome"]
    ome["multiscales"][0]["axes"] = "zyx"
    cw.open_group(group, "a").attrs["ome"] = ome
    with pytest.warns(UserWarning, match="the arrays are taken as they are"):
        image = cw.open_multiscale(group, strict=False)
    assert image.is_labels


def test_notebooks_show_levels_and_copies_of_labels_as_labels(tmp_path: Path) -> None:
    """Which have no channels, and aren't averaged; integers of which nothing is known are an image."""
    level = _ome(tmp_path)
    cw.copy(level, tmp_path / "copy.zarr")
    for place in (level, tmp_path / "copy.zarr"):
        assert Slicer(cw.open_array(place)).channels == []
    assert Slicer(cw.array(IDS)).channels != []


def test_data_that_are_no_labels_any_more_carry_no_mark(tmp_path: Path) -> None:
    array = cw.open_array(_ome(tmp_path))
    made = cw.create_array(tmp_path / "a", cw.cast(array, "float32"))
    assert "image-label" not in made.attrs
    kept = cw.create_array(tmp_path / "b", array, attributes={"image-label": {"colors": []}})
    assert kept.attrs["image-label"] == {"colors": []}


def test_labels_in_a_list_are_labels_by_all_doors(tmp_path: Path) -> None:
    level = _listed(tmp_path)
    assert cw.open_multiscale(level.parent).is_labels
    assert cw.open_multiscale(tmp_path / "i.zarr/labels")["cells"].is_labels


def test_n5_levels_that_are_copies_of_labels_are_labels(tmp_path: Path) -> None:
    cw.copy(_ome(tmp_path), tmp_path / "own.n5/s0", format="n5")
    assert cw.open_multiscale(tmp_path / "own.n5").is_labels


def test_large_integers_of_which_nothing_is_known_are_averaged_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cw.create_array(tmp_path / "a.zarr", IDS)
    words = ["pyramid", str(tmp_path / "a.zarr"), str(tmp_path / "p.zarr"), "--levels", "1", "--no-sync"]
    assert main(words) == 0
    assert "elements are averaged" in capsys.readouterr().err
    assert main([*words[:2], str(tmp_path / "q.zarr"), *words[3:], "--labels"]) == 0
    assert "elements are averaged" not in capsys.readouterr().err


def test_copies_of_images_carry_no_mark(tmp_path: Path) -> None:
    cw.downsample_pyramid(cw.array(IDS), tmp_path / "i.zarr", levels=1, sync=False).result()
    cw.copy(tmp_path / "i.zarr/0", tmp_path / "a.zarr")
    assert "image-label" not in cw.open_array(tmp_path / "a.zarr").attrs
