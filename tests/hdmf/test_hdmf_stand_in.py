"""Programs that look for hdmf-zarr by name find these classes, if they are told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nwb_content import new_file

from chunkwise.hdmf import NWBZarrIO

FOUND = """
import importlib.util, sys, warnings
warnings.simplefilter("ignore")
import chunkwise, chunkwise.hdmf, pynwb
chunkwise.hdmf.NWBZarrIO
assert "hdmf_zarr" not in sys.modules  # on the user's word only
chunkwise.install_as_hdmf_zarr()
chunkwise.install_as_hdmf_zarr()
assert importlib.util.find_spec("hdmf_zarr").name == "hdmf_zarr"
from hdmf_zarr import NWBZarrIO, ZarrDataIO
from hdmf_zarr.backend import ZarrIO
from hdmf_zarr.nwb import NWBZarrIO as again
import hdmf_zarr.utils
assert NWBZarrIO is again is chunkwise.hdmf.NWBZarrIO
assert hdmf_zarr.utils.ZarrDataIO is ZarrDataIO is chunkwise.hdmf.ZarrDataIO
assert pynwb.read_nwb(sys.argv[1]).identifier == "content"
print("found")
"""

LATE = """
import sys, types
sys.modules["hdmf_zarr"] = types.ModuleType("hdmf_zarr")
import chunkwise
try:
    chunkwise.install_as_hdmf_zarr()
except ValueError as e:
    print(e)
"""


def _run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pynwb_finds_the_stand_in(tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "w") as io:
        io.write(new_file())
    assert _run(FOUND, str(tmp_path / "a.nwb.zarr")) == "found\n"


def test_an_hdmf_zarr_that_is_imported_stays() -> None:
    assert "imported already" in _run(LATE)
