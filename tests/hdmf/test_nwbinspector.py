"""nwbinspector says the same of Zarr and N5 stores as of the HDF5 file with the same content."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from nwb_content import CONTENT, file_of
from peer_environment import python_with
from pynwb import NWBHDF5IO

from chunkwise.hdmf import NWBZarrIO

ROOT = Path(__file__).parents[2]
FORMATS = ("zarr2", "zarr3", "n5")

INSPECT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import chunkwise
chunkwise.install_as_hdmf_zarr()
from nwbinspector import inspect_nwbfile, inspect_nwbfile_object
import pynwb

def told(messages):
    return sorted(
        [m.importance.name, m.check_function_name, m.object_type, m.object_name, m.message, m.location or ""]
        for m in messages
    )

out = {}
for name in sys.argv[2:]:
    path = f"{sys.argv[1]}/{name}"
    out[name] = told(inspect_nwbfile(nwbfile_path=path, skip_validate=True))
    again = told(inspect_nwbfile_object(pynwb.read_nwb(path)))
    assert again == out[name], (name, again, out[name])
print(json.dumps(out))
"""


@pytest.mark.slow  # it makes an environment the first time
@pytest.mark.timeout(1500)
@pytest.mark.filterwarnings("ignore")
def test_it_says_the_same_of_every_format(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    python = python_with(
        # It imports zarr as soon as there is an hdmf_zarr.
        ("nwbinspector>=0.6", "zarr>=3", "pynwb>=4", *project["dependencies"]),
        "3.11",
        "nwbinspector",
    )
    names = []
    for content in CONTENT:
        nwb = file_of(content)
        with NWBHDF5IO(tmp_path / f"{content}.nwb", "w") as io:
            io.write(nwb)
        names.append(f"{content}.nwb")
        for format in FORMATS:
            with (
                NWBHDF5IO(tmp_path / f"{content}.nwb", "r") as source,
                NWBZarrIO(tmp_path / f"{content}-{format}.nwb.zarr", "w", format=format) as io,
            ):
                io.export(source)
            names.append(f"{content}-{format}.nwb.zarr")
    done = subprocess.run(
        [python, "-c", INSPECT, str(tmp_path), *names],
        capture_output=True,
        text=True,
        timeout=1000,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert any(told.values())
    for content in CONTENT:
        for format in FORMATS:
            expected, found = told[f"{content}.nwb"], told[f"{content}-{format}.nwb.zarr"]
            assert [m[:-1] for m in found] == [m[:-1] for m in expected]
            # Of objects whose place it finds by h5py.Dataset or zarr.Array in them, it tells none.
            assert all(b[-1] in ("", a[-1]) for a, b in zip(expected, found, strict=True))
            assert any(m[-1] for m in found)
