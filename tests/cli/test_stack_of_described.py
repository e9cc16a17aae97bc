"""``chunkwise stack`` of an image that an XML file of BigDataViewer describes."""

import h5py
import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)  # z, y, x


def _n5(at):
    group = cw.create_group(at / "a.n5", format="n5")
    group.create_array("setup0/timepoint0/s0", VALUES.T)
    group["setup0"].attrs["downsamplingFactors"] = [[1, 1, 1]]
    return "n5", "<n5>a.n5</n5>"


def _hdf5(at):
    with h5py.File(at / "a.h5", "w") as file:
        file["s00/resolutions"] = np.ones((1, 3))
        file.create_dataset("t00000/s00/0/cells", data=VALUES.astype("int16"), chunks=True)
    return "hdf5", "<hdf5>a.h5</hdf5>"


def _zarr(at):
    cw.create_group(at / "a.zarr", format="zarr2")
    cw.downsample_pyramid(
        cw.array(VALUES[None]), at / "a.zarr/s", axes=["c", "z", "y", "x"], levels=1, sync=False
    ).result()
    return (
        "multimg.zarr",
        '<zarr>a.zarr</zarr><zgroups><zgroup setup="0" tp="0" path="s" indicies="0"/></zgroups>',
    )


@pytest.mark.parametrize("make", [_n5, _hdf5, _zarr])
def test_sizes_and_position_are_kept_or_named(tmp_path, make, capsys):
    format, inner = make(tmp_path)
    text = (
        f'<SpimData><SequenceDescription><ImageLoader format="bdv.{format}">{inner}</ImageLoader><ViewSetups>'
        "<ViewSetup><id>0</id><voxelSize><unit>nm</unit><size>4 4 40</size></voxelSize></ViewSetup>"
        "</ViewSetups></SequenceDescription><ViewRegistrations>"
        '<ViewRegistration timepoint="0" setup="0"><ViewTransform type="affine"><affine>'
        "4 0 0 {0} 0 4 0 0 0 0 40 0</affine></ViewTransform></ViewRegistration></ViewRegistrations>"
        "</SpimData>"
    )
    for start, status in ((80, 0), (81, 3)):
        file, out = tmp_path / f"described {start}.xml", tmp_path / f"{start}.json"
        file.write_text(text.replace("{0}", str(start)))
        assert main(["stack", str(out), str(file)]) == status
        assert ("position" in capsys.readouterr().err) == bool(status)
        image = cw.open_multiscale(out)
        order = ["xyz".index(axis.name) for axis in image.axes]
        assert image.scales[0] == tuple((4, 4, 40)[k] for k in order)
        assert image.translations[0] == tuple((80, 0, 0)[k] for k in order)
        assert {axis.unit for axis in image.axes} == {"nm"}
        found = image.levels[0].read().result()
        np.testing.assert_array_equal(found, VALUES.T if order[0] == 0 else VALUES)
    moved = f"{file}@{'100,0,0' if order[0] == 0 else '0,0,100'}"
    assert main(["stack", str(tmp_path / "moved.json"), moved]) == 0
