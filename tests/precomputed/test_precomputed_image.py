"""Precomputed volumes as multiscale images."""

import numpy as np
import pytest
import tensorstore as ts

import chunkwise as cw


def test_scales_of_a_volume_are_levels(tmp_path):
    values = np.arange(20 * 30 * 10, dtype="u2").reshape(20, 30, 10, 1)
    for number, step in enumerate((1, 2)):
        scale = {
            "resolution": [8 * step, 8 * step, 40],
            "size": [20 // step, 30 // step, 10],
            "voxel_offset": [5, 0, -3],
        }
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": f"file://{tmp_path}/brain/",
            "create": True,
            "scale_index": number,
            "multiscale_metadata": {"data_type": "uint16", "num_channels": 1, "type": "image"},
            "scale_metadata": scale,
        }
        ts.open(spec).result().write(values[::step, ::step]).result()
    image = cw.open_multiscale(tmp_path / "brain")
    assert image.name == "brain"
    assert image.convention == "neuroglancer precomputed"
    assert [axis.name for axis in image.axes] == ["x", "y", "z", "channel"]
    assert image.scales == ((8, 8, 40, 1), (16, 16, 40, 1))
    assert image.levels[1].domain.origin == (5, 0, -3, 0)
    np.testing.assert_array_equal(image.levels[1], values[::2, ::2])
    assert not image.is_labels


def test_wrong_metadata_name_the_file_and_the_member(tmp_path):
    (tmp_path / "info").write_text(
        '{"type": "image", "data_type": "uint8", "num_channels": 1, "scales": [{}]}'
    )
    with pytest.raises(ValueError, match=r'info.*"scales".*"key"'):
        cw.open_multiscale(tmp_path)
