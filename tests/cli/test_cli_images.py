"""``chunkwise info`` says what images, plates and collections a group holds."""

import json
from pathlib import Path

import pytest

from chunkwise.cli.main import main

FIXTURES = Path(__file__).parents[1] / "multiscale" / "fixtures"


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "ome-zarr-py-0.5.zarr",
            ["cells (ome-ngff-0.5)", "z (space, um)", "DAPI #0000FF", "uint8", "0.5 um", "nuclei"],
        ),
        ("ome-zarr-py-0.4.zarr/labels/nuclei", ["labels", "(ome-ngff-0.4)", "1 labels"]),
        ("ngff-zarr-0.5.ozx", ["image (ome-ngff-0.5)", "scale1/image"]),
        ("plate-0.4.zarr", ["screen", "2: A/1, A/2"]),
        ("plate-0.5.zarr/A/1", ["fields 0"]),
    ],
)
def test_info(capsys, name, texts):
    assert main(["info", str(FIXTURES / name)]) == 0
    shown = capsys.readouterr().out
    assert not [text for text in texts if text not in shown], shown
    assert (
        main(["--json", "info", str(FIXTURES / name)]) == 0
        or main(["info", "--json", str(FIXTURES / name)]) == 0
    )
    assert json.loads(capsys.readouterr().out)["image"]


def test_an_image_that_cannot_be_read_is_told(tmp_path, capsys):
    ome = {"ome": {"version": "0.5", "multiscales": 3}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": ome}
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    assert main(["info", str(tmp_path)]) == 0
    assert "can't be read" in capsys.readouterr().out
