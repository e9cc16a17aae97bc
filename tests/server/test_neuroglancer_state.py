"""What ``view --neuroglancer`` shows: time, channels, windows, labels, places."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise
from chunkwise.errors import UnsupportedError
from chunkwise.images.server.neuroglancer import neuroglancer_state
from chunkwise.images.server.sources import sources_of


def _state(place: Any, *, windows: bool = True) -> dict[str, Any]:
    return neuroglancer_state("http://a/", sources_of(place), windows=windows)


def _movie(place: Path, convention: str) -> None:
    """Write an image of t, c, y, x: channel 0 is bright on the left, channel 1 above; black before t = 1."""
    values = np.zeros((3, 2, 64, 64), "u2")
    values[1:, 0, :, :32], values[1:, 1, :32] = 3000, 900
    chunkwise.downsample_pyramid(
        chunkwise.array(values),
        place,
        axes=list("tcyx"),
        units=["2 s", None, "0.5 um", "0.5 um"],
        chunks=(1, 1, 32, 32),
        levels=1,
        convention=convention,
    ).result()


def test_windows_come_from_percentiles_and_channels_are_summed(tmp_path: Path) -> None:
    values = np.zeros((2, 40, 40), "u2")
    values[0, :20], values[1, :, :20] = 4000, 500
    chunkwise.downsample_pyramid(
        chunkwise.array(values), tmp_path / "c.zarr", axes=list("cyx"), levels=1
    ).result()
    state = _state(tmp_path / "c.zarr")
    assert state["layout"] == "xy"
    [layer] = state["layers"]
    assert layer["source"]["url"].startswith("precomputed://") and layer["type"] == "image"
    for text in ("range=[0, 4000], channel=0", "range=[0, 500], channel=1", "emitRGB"):
        assert text in layer["shader"]
    assert "range" not in _state(tmp_path / "c.zarr", windows=False)["layers"][0]["shader"]


def test_bytes_of_three_channels_are_red_green_and_blue(tmp_path: Path) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", np.zeros((30, 40, 3), "u1"))
    [layer] = _state(tmp_path / "a.zarr")["layers"]
    for number, color in enumerate(("#ff0000", "#00ff00", "#0000ff")):
        assert f"range=[0, 255], channel={number}" in layer["shader"]
        assert f'color{number} color(default="{color}")' in layer["shader"]


def test_labels_of_an_image_are_a_layer_at_their_place(tmp_path: Path) -> None:
    image = chunkwise.array(np.full((4, 8, 8), 900, "u2"))
    chunkwise.downsample_pyramid(image, tmp_path / "i.zarr", axes=list("zyx"), levels=1).result()
    group = chunkwise.open_group(tmp_path / "i.zarr/labels", "w")
    group.attrs["ome"] = {"version": "0.5", "labels": ["cells"]}
    cells = group.create_group("cells")
    cells.create_array("0", np.ones((4, 4, 4), "u4"))
    for shift, moved in (
        (0.5, None),
        (1.0, -0.75),
    ):  # it begins at 0, or at 0.25 of its voxels; the volume at 1
        scale = [
            {"type": "scale", "scale": [1.0, 2.0, 2.0]},
            {"type": "translation", "translation": [0.0, shift, shift]},
        ]
        axes = [{"name": name, "type": "space"} for name in "zyx"]
        cells.attrs["ome"] = {
            "version": "0.5",
            "multiscales": [{"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}],
            "image-label": {"colors": [{"label-value": 1, "rgba": [9, 99, 199, 255]}]},
        }
        first, labels = _state(tmp_path / "i.zarr")["layers"]
        assert "transform" not in first["source"] and first["name"] == "i.zarr"
        assert (labels["name"], labels["type"]) == ("i.zarr cells", "segmentation")
        assert labels["segmentColors"] == {"1": "#0963c7"}
        if moved is None:
            assert "transform" not in labels["source"]
        else:
            assert [row[-1] for row in labels["source"]["transform"]["matrix"]] == [moved, moved, 0.0]


def test_what_can_not_be_shown_is_named(tmp_path: Path) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", np.zeros((4, 4), "c8"))
    with pytest.raises(UnsupportedError, match=r"neuroglancer can show: .*complex64"):
        _state(tmp_path / "a.zarr")


@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4"])
def test_time_has_a_slider_and_each_channel_a_layer(tmp_path: Path, convention: str) -> None:
    _movie(tmp_path / "t.zarr", convention)
    state = _state(tmp_path / "t.zarr")
    assert state["dimensions"] == {"x": [5e-7, "m"], "y": [5e-7, "m"], "t": [2.0, "s"]}
    assert state["displayDimensions"] == ["x", "y"]
    assert [layer["localPosition"] for layer in state["layers"]] == [[0], [1]]
    assert "range=[0, 3000]" in state["layers"][0]["shader"]


@pytest.mark.slow
@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4"])
def test_neuroglancer_draws_time_and_channels(tmp_path: Path, page: Any, convention: str) -> None:
    import neuroglancer
    from PIL import Image

    _movie(tmp_path / "t.zarr", convention)
    with chunkwise.serve(tmp_path / "t.zarr") as server:
        neuroglancer.set_server_bind_address("127.0.0.1")
        viewer = neuroglancer.Viewer()
        state = neuroglancer_state(server.url, server.sources, windows=True)
        more = {"showAxisLines": False, "showScaleBar": False, "showDefaultAnnotations": False}
        viewer.set_state(neuroglancer.ViewerState({**state, **more}))
        page.goto(viewer.get_viewer_url())
        box = page.locator(".neuroglancer-rendered-data-panel").bounding_box()
        x, y = int(box["x"] + box["width"] / 2), int(box["y"] + box["height"] / 2)
        wanted = [(255, 255, 255), (0, 255, 0), (255, 0, 255), (0, 0, 0)]
        found: Any = None
        for _ in range(60):
            picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
            found = [picture.getpixel((x + dx, y + dy)) for dy in (-9, 9) for dx in (-9, 9)]
            if found == wanted:
                break
            page.wait_for_timeout(250)
        neuroglancer.stop()
        assert found == wanted
