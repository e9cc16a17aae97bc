"""A wrong option of a conversion is named, and neither target nor what it would replace is changed."""

import datetime

import numpy as np
import pytest
from hdmf.common import DynamicTable, VectorData, get_manager
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

import chunkwise.hdmf
from chunkwise.errors import ChunkwiseError
from chunkwise.hdmf import ZarrIO

GZIP_99 = {"name": "gzip", "configuration": {"level": 99}}
WRONG = {
    "codec": [
        "gzip:99",
        "nope",
        5,
        {"name": "gzip", "configuration": {"level": 99}},
        {"foo": 1},
        ["zstd", 5],
    ],
    "executor": [5, "threads", "threads:0"],
    "memory": ["x", 0, 1.5],
    "progress": [5],
    "verify": ["no"],
    "resume": ["no"],
    "format": ["nope"],
}


def _tree(place):
    return {str(file.relative_to(place)): file.is_file() and file.read_bytes() for file in place.rglob("*")}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_conversion_with_a_wrong_option_changes_nothing(tmp_path, overwrite):
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    file = NWBFile(session_description="a session", identifier="id", session_start_time=start)
    file.add_acquisition(TimeSeries(name="t", data=np.arange(100.0), unit="V", rate=1.0))
    with NWBHDF5IO(str(tmp_path / "a.nwb"), "w") as io:
        io.write(file)
    target = tmp_path / "old.zarr"
    if overwrite:
        chunkwise.hdmf.convert(tmp_path / "a.nwb", target, format="zarr3", codec="zstd:5")
    before = _tree(tmp_path)
    for option, values in WRONG.items():
        for value in values:
            given = {"format": "zarr3", option: value}
            with pytest.raises(ChunkwiseError, match=option):
                chunkwise.hdmf.convert(tmp_path / "a.nwb", target, overwrite=overwrite, **given)
            assert _tree(tmp_path) == before, given


def _table():
    column = VectorData(name="a", description="d", data=[1, 2, 3])
    return DynamicTable(name="t", description="d", columns=[column])


@pytest.mark.parametrize("how", ["write", "convert"])
@pytest.mark.parametrize(
    ("name", "codec", "stored"),
    [
        ("a.n5", "bzip2", "bzip2"),
        ("a.n5", {"type": "xz", "preset": 1}, "xz"),
        ("a.zarr", "bzip2", None),
        ("a.n5", "crc32c", None),
        ("a.zarr", {"type": "lz4", "blockSize": 65536}, None),
    ],
)
def test_a_compressor_is_one_of_the_format_that_is_written(tmp_path, name, codec, stored, how):
    """Where the name of the file says the format, and nothing else does."""
    with ZarrIO(tmp_path / "source.zarr", "w", manager=get_manager()) as io:
        io.write(_table())
    path = tmp_path / name

    def write():
        if how == "convert":
            chunkwise.hdmf.convert(tmp_path / "source.zarr", path, codec=codec)
            return
        with ZarrIO(path, "w", manager=get_manager(), codec=codec) as io:
            io.write(_table())

    if stored is None:
        with pytest.raises(ChunkwiseError, match="codec"):
            write()
        assert not path.exists()
    else:
        write()
        assert stored in str(chunkwise.open_array(path / "a").codec)
