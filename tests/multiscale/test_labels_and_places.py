"""What an image says of labels and positions, every door says: of the image, its levels, views and stacks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kerchunk_references import kerchunk_references

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.images.server.answer import Document
from chunkwise.images.server.neuroglancer import neuroglancer_state
from chunkwise.images.server.sources import Sources, sources_of
from chunkwise.images.server.spaces import find_content
from chunkwise.napari.reader import layers_of

IDS = np.repeat(np.repeat(np.array([[100, 150], [250, 300]], "uint64"), 3, 0), 5, 1)  # edges within 2 x 2
VALUES = np.stack([IDS, IDS, IDS + 1, IDS + 1]).transpose(2, 1, 0)[:9, :5]  # x, y, z
SIZES = (4.0, 8.0, 40.0)
CORNER = (4, -2, 10)


def _n5(path: Path, name: str, values: np.ndarray[Any, Any], **attributes: Any) -> None:
    array = cw.open_group(path, "a", format="n5").create_array(name, values, chunks=(4, 4, 4), codec="gzip")
    array.attrs.update(attributes)


def _precomputed(path: Path, *, labels: bool) -> tuple[Path, Path | None]:
    path = path.with_suffix("")
    for number, step in enumerate((1, 2)):
        values = VALUES[::step, ::step]
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": f"file://{path}/",
            "create": True,
            "scale_index": number,
            "multiscale_metadata": {
                "type": "segmentation" if labels else "image", "data_type": "uint64", "num_channels": 1,
            },
            "scale_metadata": {
                "resolution": [SIZES[0] * step, SIZES[1] * step, SIZES[2]],
                "size": values.shape,
                "voxel_offset": [CORNER[0] // step, CORNER[1] // step, CORNER[2]],
                "encoding": "raw",
            },
        }  # fmt: skip
        cw.open(spec).result().write(values[..., None]).result()
    return path, None


def _paintera(path: Path, *, labels: bool) -> tuple[Path, Path | None]:
    at = [n * size for n, size in zip(CORNER, SIZES, strict=True)]
    _n5(path, "v/data/s0", VALUES)
    _n5(path, "v/data/s1", VALUES[::2, ::2], downsamplingFactors=[2.0, 2.0, 1.0])
    root = cw.open_group(path, "a")
    root["v"].attrs["painteraData"] = {"type": "label" if labels else "raw"}
    root["v/data"].attrs.update({"multiScale": True, "resolution": list(SIZES), "offset": at, "unit": "nm"})
    return path / "v", path / "v/data/s0"


def _bdv(path: Path, *, labels: bool) -> tuple[Path, Path | None]:
    x, y, z = (n * size for n, size in zip(CORNER, SIZES, strict=True))
    affine = f"4 0 0 {x} 0 8 0 {y} 0 0 40 {z}"
    _n5(path, "setup0/timepoint0/s0", VALUES)
    _n5(path, "setup0/timepoint0/s1", VALUES[::2, ::2])
    cw.open_group(path, "a")["setup0"].attrs["downsamplingFactors"] = [[1, 1, 1], [2, 2, 1]]
    path.with_suffix(".xml").write_text(
        '<SpimData version="0.2"><SequenceDescription><ImageLoader format="bdv.n5"><n5>'
        f"{path.name}</n5></ImageLoader><ViewSetups><ViewSetup><id>0</id><name>one</name><size>9 5 4</size>"
        "<voxelSize><unit>nm</unit><size>4 8 40</size></voxelSize></ViewSetup></ViewSetups>"
        '</SequenceDescription><ViewRegistrations><ViewRegistration timepoint="0" setup="0">'
        '<ViewTransform type="affine">'
        f"<affine>{affine}</affine></ViewTransform></ViewRegistration></ViewRegistrations></SpimData>"
    )
    return path / "setup0", path / "setup0/timepoint0/s0"


def _ome(path: Path, *, labels: bool, version: str = "0.5") -> tuple[Path, Path | None]:
    array = cw.array(VALUES.transpose(2, 1, 0)).translate_to[CORNER[::-1]]
    units = [f"{size} nm" for size in SIZES[::-1]]
    image = path / "labels/cells" if labels else path
    if labels:
        cw.downsample_pyramid(array, path, units=units, levels=1).result()
    cw.downsample_pyramid(
        array, image, units=units, levels=1, labels=labels, convention=f"ome-ngff-{version}"
    ).result()
    return image, image / "0"


def _ome_04(path: Path, *, labels: bool) -> tuple[Path, Path | None]:
    if labels:
        return _ome(path, labels=False, version="0.4")[0], None
    return _ome(path, labels=False, version="0.4")


KINDS: dict[str, Callable[..., tuple[Path, Path | None]]] = {
    "precomputed": _precomputed, "paintera": _paintera, "bdv": _bdv, "ome": _ome, "ome 0.4": _ome_04,
}  # fmt: skip
THINGS = [
    (kind, labels)
    for kind in KINDS
    for labels in (False, True)
    if not (labels and kind in ("bdv", "ome 0.4"))  # which have no labels
]


def _served(sources: Sources, space: str, *names: str) -> Any:
    found = find_content(sources, space, names)
    assert isinstance(found, Document), names
    return json.loads(found.body)


def _check_place(image: Any, what: str) -> None:
    """Check sizes and the position of the first level of an image, in whatever order its axes are."""
    known = {
        axis.name: (size, at)
        for axis, size, at in zip(image.axes, image.scales[0], image.translations[0], strict=True)
    }
    for name, size, first in zip("xyz", SIZES, CORNER, strict=True):
        assert known[name] == (size, first * size), (what, name, known)


def _voxels(info: Any) -> list[tuple[Any, Any]]:
    return [(scale["resolution"], scale["voxel_offset"]) for scale in info["scales"]]


@pytest.mark.parametrize(("kind", "labels"), THINGS)
def test_every_door_has_the_labels_and_the_place_of_an_image(tmp_path: Path, kind: str, labels: bool) -> None:
    group, level = KINDS[kind](tmp_path / "a.n5", labels=labels)
    places = [group] if level is None else [group, level, level.parent]
    for place in places:
        image = cw.open_multiscale(place)
        assert image.is_labels is labels, place
        _check_place(image, str(place))
        assert all(one[2] == ("labels" if labels else "image") for one in layers_of(image)), place
        np.testing.assert_array_equal(layers_of(image)[0][1]["scale"][-3:], SIZES[::-1])
        sources = sources_of(place)
        name = next(iter(sources))
        info = _served(sources, "precomputed", name, "info")
        assert info["type"] == ("segmentation" if labels else "image"), place
        assert _voxels(info)[0] == (list(SIZES), list(CORNER)), place
        [layer] = neuroglancer_state("http://a/", sources)["layers"]
        assert layer["type"] == ("segmentation" if labels else "image")
        if len(image.levels) > 1:
            resolution, offset = map(np.array, _voxels(info)[1])
            np.testing.assert_array_equal(resolution * offset, np.multiply(SIZES, CORNER))
            assert resolution[0] == 2 * SIZES[0]
            document = _served(sources, "zarr3", name, "zarr.json")["attributes"]["ome"]
            assert ("image-label" in document) is labels
            for entry in document["multiscales"][0]["datasets"]:
                array = _served(sources, "zarr3", name, *entry["path"].split("/"), "zarr.json")
                assert array["node_type"] == "array"


@pytest.mark.parametrize(("kind", "labels"), THINGS)
def test_what_is_served_as_precomputed_is_read_where_it_lies(tmp_path: Path, kind: str, labels: bool) -> None:
    group, _ = KINDS[kind](tmp_path / "a.n5", labels=labels)
    with cw.serve(group) as server:
        url = f"{server.url}precomputed/{group.name}/"
        volume = cw.open({"driver": "neuroglancer_precomputed", "kvstore": url}).result()
        assert volume.origin == (*CORNER, 0)
        np.testing.assert_array_equal(volume[..., 0].read().result(), VALUES)


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        pytest.param(kind, labels, marks=() if labels and kind != "ome" else pytest.mark.slow)
        for kind, labels in THINGS
    ],
)
def test_labels_are_never_averaged(
    tmp_path: Path, kind: str, labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The array, a view, a cast, and stacks of every kind are what their image is: Python and the command."""
    group, level = KINDS[kind](tmp_path / "a.n5", labels=labels)
    place = level or group
    whole = cw.open_array(place) if level else cw.open(str(place)).result()
    half = whole.shape[0] // 2 + whole.origin[0]
    low, high = whole[:half], whole[half:]
    views = {
        "array": whole,
        "view": whole[tuple(slice(lo, None) for lo in whole.origin)],
        "cast": cw.cast(whole, "uint32"),
        "concat": cw.concat([part.translate_to[(0,) * whole.rank] for part in (low, high)], 0),
        "overlay": cw.overlay([low, high], fill_value=0),
        "stack of stacks": cw.stack([cw.overlay([low, high])], whole.rank)[..., 0],
        "opened level": cw.open_multiscale(group).levels[0],
    }
    known = set(np.unique(VALUES)) | {0}
    for name, view in views.items():
        made = cw.downsample_pyramid(view, tmp_path / f"{name}.zarr", levels=1, sync=False).result()
        image = cw.open_multiscale(tmp_path / f"{name}.zarr")
        assert image.is_labels is labels, name
        new = set(np.unique(made.levels[1].read().result())) - known
        assert bool(new) is not labels, (name, new)
        sizes = dict(zip([axis.name for axis in image.axes], image.scales[0], strict=True))
        assert [sizes[axis] for axis in "xyz"] == list(SIZES), name
    monkeypatch.chdir(tmp_path)
    assert main(["stack", "m.json", str(place)]) == 0
    for source, out in (("m.json", "of_stack.zarr"), (str(place), "of_array.zarr")):
        assert main(["pyramid", source, out, "--levels", "1", "--no-sync"]) == 0
        assert cw.open_multiscale(out).is_labels is labels
        _check_place(cw.open_multiscale(out), out)
    _check_place(cw.open_multiscale("m.json"), "m.json")
    assert cw.open_multiscale("m.json").is_labels is labels


def test_a_stack_with_gaps_and_one_with_a_lost_layer_are_opened(tmp_path: Path) -> None:
    _, level = _ome(tmp_path / "i.zarr", labels=True)
    assert level is not None
    whole = cw.open_array(level)
    gaps = cw.overlay([whole[:1, :2], whole[2:, 3:]])
    assert cw.open_multiscale(gaps).is_labels
    spec = gaps.spec().to_json()
    shutil.rmtree(level)
    image = cw.open_multiscale(spec)
    assert not image.is_labels and "a layer can't be opened" in image._metadata.problems[0]


def test_a_stack_is_labels_if_one_layer_is(tmp_path: Path) -> None:
    _, level = _ome(tmp_path / "i.zarr", labels=True)
    assert level is not None
    plain = cw.create_array(tmp_path / "plain.zarr", VALUES.transpose(2, 1, 0))
    both = cw.concat([cw.open_array(level), plain], 0)
    assert cw.open_multiscale(both).is_labels
    assert not cw.open_multiscale(cw.stack([plain, plain])).is_labels


@pytest.mark.parametrize(
    "name", ["data", *(pytest.param(name, marks=pytest.mark.slow) for name in ("volume", "s0", "0"))]
)
@pytest.mark.parametrize("file", ["h5", "zip", "kerchunk"])
def test_a_copy_of_a_file_with_one_array_is_a_copy(
    tmp_path: Path, file: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The array keeps its name, its attributes and its dimensions, and nothing becomes an image."""
    import h5py

    values = np.arange(60, dtype="int16").reshape(3, 4, 5)
    path = tmp_path / ("x.zip" if file == "zip" else "x.h5")
    if file == "zip":
        group = cw.open_group(tmp_path / "g.zarr", "w", format="zarr2")
        group.attrs["subject"] = "mouse"
        group.create_array(name, values, dimension_names=["z", "y", "x"]).attrs["gain"] = 2
        assert main(["zip", str(tmp_path / "g.zarr"), str(path)]) == 0
    else:
        with h5py.File(path, "w") as stored:
            stored.attrs["subject"] = "mouse"
            dataset = stored.create_dataset(name, data=values, chunks=(3, 4, 5))
            dataset.attrs["gain"] = 2
            for n, label in enumerate("zyx"):
                dataset.dims[n].label = label
    if file == "kerchunk":
        references = kerchunk_references(path)
        path = tmp_path / "x.json"
        path.write_text(json.dumps(references))
    monkeypatch.chdir(tmp_path)
    written_out = f"{path}|{ {'h5': 'hdf5', 'zip': 'zip', 'kerchunk': 'reference'}[file] }:"
    for source in {written_out, written_out if file == "kerchunk" else str(path)}:
        for format in ("zarr3", "n5"):
            out = f"{len(source)}.{format}"
            assert main(["cp", "-r", source, out, "--format", format, "--verify"]) in (0, 3)
            copied = cw.open_group(out)
            assert list(copied) == [name] and copied.attrs["subject"] == "mouse"
            assert "ome" not in copied.attrs and copied[name].attrs["gain"] == 2
            np.testing.assert_array_equal(copied[name].read().result(), values)
            if file != "kerchunk":
                assert copied[name].domain.labels == ("z", "y", "x")
            assert main(["rm", "-r", "-f", out]) == 0


def test_an_image_is_whole_whatever_its_levels_are_called(tmp_path: Path) -> None:
    from chunkwise.extension.trees import locate
    from chunkwise.images.pyramid.image_sources import images_in

    for kind, labels in THINGS:
        if kind in ("paintera", "bdv"):
            group, _ = KINDS[kind](tmp_path / f"{kind}{labels}.n5", labels=labels)
            found = images_in(locate(group))
            assert found is not None and found.beside == []
            cw.open_group(group, "a").create_array("other", np.zeros(3))
            found = images_in(locate(group))
            assert found is not None and found.beside == ["other"]


@pytest.mark.parametrize("door", ["open_multiscale", "pyramid", "slice", "stack", "info"])
def test_labels_alone_stand_for_their_group(tmp_path: Path, door: str) -> None:
    """In all doors, if nothing else is in the group; with an array beside them, in none."""
    ids = np.arange(64, dtype="u4").reshape(8, 8)
    place, out = tmp_path / "i.zarr", tmp_path / "o"
    cw.create_group(place)
    cw.downsample_pyramid(ids, place / "labels/cells", labels=True, axes=["y", "x"], levels=1).result()
    doors = {
        "open_multiscale": lambda: list(cw.open_multiscale(place)) == ["cells"],
        "pyramid": lambda: (
            cw.downsample_pyramid(place, out, levels=1).result() and cw.open_multiscale(out).is_labels
        ),
        "slice": lambda: (
            main(["slice", str(place), "--npy", f"{out}.npy"]) == 0 and (np.load(f"{out}.npy") == ids).all()
        ),
        "stack": lambda: main(["stack", f"{out}.json", str(place), str(place)]) == 0,
        "info": lambda: main(["info", str(place)]) == 0,
    }
    assert doors[door]()
    cw.create_array(place / "raw", ids)
    if door != "info":
        with pytest.raises((cw.errors.ChunkwiseError, AssertionError)):
            assert doors[door]()
