"""Files written here, read by hdmf-zarr 0.13 (v2) and 0.14 (v3) in environments of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from nwb_content import CONTENT, file_of
from peer_environment import PEERS, peer_python
from pynwb import NWBHDF5IO

from chunkwise.hdmf import NWBZarrIO, ZarrIO

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,  # it makes an environment the first time
    pytest.mark.timeout(1500),
]

FORMATS = {"0.13": "zarr2", "0.14": "zarr3"}

# The peer reads each store and the HDF5 file of the same content, and compares as pynwb does.
COMPARE = """
import sys, warnings
warnings.simplefilter("ignore")
from hdmf.testing import TestCase
from hdmf_zarr import NWBZarrIO
from pynwb import NWBHDF5IO
for name in sys.argv[2:]:
    path = f"{sys.argv[1]}/{name}.nwb"
    with NWBHDF5IO(path, "r") as a, NWBZarrIO(path + ".zarr", "r") as b:
        TestCase().assertContainerEqual(b.read(), a.read(), ignore_hdmf_attrs=True)
        print("equal", name, flush=True)
"""

BUILDERS = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog
from hdmf_zarr import ZarrIO
with ZarrIO(sys.argv[1], manager=BuildManager(TypeMap(NamespaceCatalog())), mode="r") as io:
    root = io.read_builder()
    d = {name: b.data for name, b in root.datasets.items()}
    assert np.asarray(d["numbers"][:]).tolist() == [[0, 1], [2, 3]]
    assert list(d["words"][:]) == ["a", "ünï"]
    assert d["refs"][0].name == "group", d["refs"][0]
    row = d["rows"][1]
    assert int(row[0]) == 2 and row[1] == "two" and row[2].name == "numbers", row
    plain = d["plain"][1]
    assert (int(plain[0]), float(plain[1])) == (3, 4.5), plain
    assert root.attributes["whole"] is not None
    print("equal builders")
"""


def run(release: str, *arguments: str) -> str:
    environment = {**os.environ, "NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE": "1"}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [peer_python(release), "-c", *arguments], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("release", PEERS)
def test_checklist_content_is_read_equal_by_hdmf_zarr(tmp_path: Path, release: str) -> None:
    peer_python(release)
    for name in CONTENT:
        nwb = file_of(name)
        if release == "0.13":  # it can't write a scalar record, and reads one as an array of length 1
            for group in nwb.electrode_groups.values():
                group.fields.pop("position", None)
        with NWBHDF5IO(tmp_path / f"{name}.nwb", "w") as io:
            io.write(nwb)
        with (
            NWBHDF5IO(tmp_path / f"{name}.nwb", "r") as source,
            NWBZarrIO(tmp_path / f"{name}.nwb.zarr", mode="w", format=FORMATS[release]) as io,
        ):
            io.export(source)
    printed = run(release, COMPARE, str(tmp_path), *CONTENT)
    assert printed.split("\n")[:-1] == [f"equal {name}" for name in CONTENT]


@pytest.mark.parametrize("release", PEERS)
def test_builders_are_read_equal_by_hdmf_zarr(tmp_path: Path, release: str) -> None:
    peer_python(release)
    numbers = DatasetBuilder("numbers", np.arange(4).reshape(2, 2))
    group = GroupBuilder("group", attributes={"a": 1})
    rows = [(1, "one", ReferenceBuilder(group)), (2, "two", ReferenceBuilder(numbers))]
    member = [
        {"name": "id", "dtype": "int32"},
        {"name": "label", "dtype": "utf8"},
        {"name": "to", "dtype": "object"},
    ]
    plain = [{"name": "x", "dtype": "int32"}, {"name": "y", "dtype": "float64"}]
    root = GroupBuilder(
        "root",
        attributes={"whole": ReferenceBuilder(group), "n": np.uint32(7)},
        groups=[group],
        datasets=[
            numbers,
            DatasetBuilder("words", ["a", "ünï"]),
            DatasetBuilder("refs", [ReferenceBuilder(group), ReferenceBuilder(numbers)], dtype="object"),
            DatasetBuilder("rows", rows, dtype=member),
            DatasetBuilder("plain", [(1, 2.5), (3, 4.5)], dtype=plain),
        ],
    )
    with ZarrIO(tmp_path / "a.zarr", mode="w", format=FORMATS[release]) as io:
        io.write_builder(root)
    assert run(release, BUILDERS, str(tmp_path / "a.zarr")) == "equal builders\n"


VALIDATE = """
import sys, warnings
warnings.simplefilter("ignore")
import pynwb
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(sys.argv[1], "r") as io:
    errors = pynwb.validate(io=io)
    assert not errors, errors
print("valid")
"""


@pytest.mark.parametrize(("release", "options"), [("0.13", {"object_codec": "pickle"}), ("0.14", {})])
def test_tables_with_references_are_valid_for_hdmf_zarr(
    tmp_path: Path, release: str, options: dict[str, Any]
) -> None:
    # The validator of 0.13 knows the members of compounds from the stored type, which JSON objects lack.
    peer_python(release)
    with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w", format=FORMATS[release], **options) as io:
        io.write(file_of("intervals"))
    assert run(release, VALIDATE, str(tmp_path / "a.nwb.zarr")) == "valid\n"
