"""OME-Zarr as ome-zarr-py and ngff-zarr write it; ``fixtures/make_fixtures.py`` says how."""

from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw

FIXTURES = Path(__file__).with_name("fixtures")


def _values(*shape):
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype("uint8")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_images_of_ome_zarr_py(version):
    image = cw.open_multiscale(FIXTURES / f"ome-zarr-py-{version}.zarr")
    assert image.convention == f"ome-ngff-{version}"
    assert [(a.name, a.type, a.unit) for a in image.axes][:2] == [("c", "channel", ""), ("z", "space", "um")]
    np.testing.assert_array_equal(image.levels[0], _values(2, 4, 16, 24))
    assert image.levels[1].shape[2:] == (8, 12) and image.scales[1][2:] == (0.5, 0.5)
    assert [(c.label, c.color, c.window.end) for c in image.channels] == [
        ("DAPI", "0000FF", 200),
        ("GFP", "00FF00", 100),
    ]
    labels = image.labels["nuclei"]
    assert labels.is_labels and labels.label_colors == {3: (255, 0, 0, 255)}
    np.testing.assert_array_equal(labels.levels[0], _values(4, 16, 24))


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_plates_of_ome_zarr_py(version):
    plate = cw.open_multiscale(FIXTURES / f"plate-{version}.zarr")
    assert list(plate.wells) == ["A/1", "A/2"] and plate.name == "screen"
    np.testing.assert_array_equal(plate.fields["A/2/0"].levels[0], _values(8, 8))


@pytest.mark.parametrize("file", ["0.4.zarr", "0.5.zarr", "0.5.ozx", "0.6.zarr"])
def test_images_of_ngff_zarr(file):
    image = cw.open_multiscale(FIXTURES / f"ngff-zarr-{file}", drafts=True)
    assert image.convention == f"ome-ngff-{file[:3]}"
    np.testing.assert_array_equal(image.levels[0], _values(4, 16, 24))
    assert image.scales == ((2.0, 0.5, 0.5), (4.0, 1.0, 1.0))
    assert image.translations == ((0.0, 4.0, 8.0), (1.0, 4.25, 8.25))
    assert image.levels[0].origin == (0, 8, 16) and image.levels[1].origin == (0, 4, 8)
    assert [str(unit) for unit in image.levels[1].dimension_units] == ["4 um", "um", "um"]
