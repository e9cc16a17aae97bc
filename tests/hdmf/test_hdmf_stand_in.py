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
from hdmf_zarr.backend import DEFAULT_SPEC_LOC_DIR, ROOT_NAME, SPEC_LOC_ATTR
from hdmf_zarr.backend_zarrv2 import UnsafePickleCodecError
from hdmf_zarr.utils import HDMFZarrArray, ZarrReference
from hdmf_zarr.zarr_utils import ContainerZarrReferenceDataset
import hdmf_zarr.utils
assert (ROOT_NAME, SPEC_LOC_ATTR, DEFAULT_SPEC_LOC_DIR) == ("root", ".specloc", "specifications")
with NWBZarrIO(sys.argv[1], "r") as io:
    io.read()
    reference = ZarrReference(source=".", path="/general")
    assert reference == {"source": ".", "path": "/general", "object_id": None, "source_object_id": None}
    assert io.resolve_ref(reference) == ("general", "/general")
    assert isinstance(io.file["session_start_time"], HDMFZarrArray)
assert NWBZarrIO is again is chunkwise.hdmf.NWBZarrIO
assert hdmf_zarr.utils.ZarrDataIO is ZarrDataIO is chunkwise.hdmf.ZarrDataIO
assert pynwb.read_nwb(sys.argv[1]).identifier == "content"
print("found")
"""

READERS = """
import sys, warnings
warnings.simplefilter("ignore")
import chunkwise
chunkwise.install_as_hdmf_zarr()
from hdmf_zarr import IncompleteConversionError, NWBZarrIO, NWBZarrV2IO, ZarrV2IO, is_zarr_v2_file
from hdmf_zarr.nwb_zarrv2 import NWBZarrV2IO as again
assert again is NWBZarrV2IO
old, new, newer = sys.argv[1:]
assert is_zarr_v2_file(old) and not is_zarr_v2_file(new)
for reader in (NWBZarrV2IO, ZarrV2IO):
    for arguments in ((new,), (old, "w")):
        try:
            reader(*arguments)
        except ValueError as e:
            print(reader.__name__ in str(e))
with NWBZarrV2IO(old, mode="r", allow_pickle=True) as io:
    assert io.read().identifier == "content"
    io.export_to_v3(new)
NWBZarrV2IO.convert_to_v3(old, newer)
for path in (new, newer):
    assert not is_zarr_v2_file(path)
    with NWBZarrIO(path, mode="r") as io:
        assert io.read().identifier == "content" and io.store.format == "zarr3"
"""

PATCHES = """
import sys, types, warnings
warnings.simplefilter("ignore")
import h5py, hdmf, numcodecs, numpy, pynwb, zarr
import hdmf.backends.hdf5.h5tools, hdmf.common, hdmf.data_utils, hdmf.query, hdmf.validate, pynwb.core
PEERS = ("h5py", "hdmf", "numcodecs", "numpy", "pynwb", "zarr")

def members():
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in PEERS or type(module) is not types.ModuleType:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, types.ModuleType):  # a module that was imported meanwhile
                continue
            if isinstance(value, (type, types.FunctionType)):
                found[name, key] = value
            if isinstance(value, type) and value.__module__.partition(".")[0] in PEERS:
                for attribute, own in vars(value).items():
                    if callable(own) or isinstance(own, (property, classmethod, staticmethod)):
                        found[name, key, attribute] = own
    return found

before = members()
import chunkwise
from chunkwise.hdmf import NWBZarrIO, ZarrDataIO, ZarrIO, convert, open_store, read_nwb
chunkwise.install_as_hdmf_zarr()
session = read_nwb(sys.argv[1])
session.get_read_io().close()
convert(sys.argv[1], sys.argv[1] + ".h5", format="hdf5")
after = members()
assert len(before) > 1000
print([key for key, value in before.items() if after.get(key) is not value])
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


def test_the_readers_of_zarr_v2_are_found(tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "old", "w", format="zarr2") as io:
        io.write(new_file())
    with NWBZarrIO(tmp_path / "new", "w") as io:
        io.write(new_file())
    paths = [str(tmp_path / name) for name in ("old", "new", "newer")]
    assert _run(READERS, *paths) == "True\n" * 4


def test_nothing_of_other_packages_is_patched(tmp_path: Path) -> None:
    with NWBZarrIO(tmp_path / "a", "w") as io:
        io.write(new_file())
    assert _run(PATCHES, str(tmp_path / "a")) == "[]\n"


def test_an_hdmf_zarr_that_is_imported_stays() -> None:
    assert "imported already" in _run(LATE)
