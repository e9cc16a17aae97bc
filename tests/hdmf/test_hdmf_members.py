"""Members of compounds, text changed in place, pickled datasets, stores that don't list."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from nwb_content import file_of, new_file
from pynwb import TimeSeries

from chunkwise.errors import DataCorruptionError, InvalidArgumentError, OutOfBoundsError, UnsupportedError
from chunkwise.hdmf import NWBZarrIO, Reference, ZarrIO, open_store, read_nwb
from chunkwise.hdmf.model.tree import COPIES

FORMATS = ("zarr2", "zarr3", "n5")
ROWS = [(1, "one", 1.5), (2, "zwei", 2.5), (3, "ü", 3.5)]
pytestmark = pytest.mark.filterwarnings("ignore")
ONE = ("n5", *(pytest.param(format, marks=pytest.mark.slow) for format in ("zarr2", "zarr3")))
"""Formats of tests that take long, of which one is in each run."""


def compounds(path: Path, format: str, **options: Any) -> Path:
    plain = [
        {"name": "id", "dtype": "int32"},
        {"name": "word", "dtype": "utf8"},
        {"name": "x", "dtype": "float64"},
    ]
    group = GroupBuilder("g", attributes={"object_id": "g-1"})
    table = DatasetBuilder("table", ROWS, dtype=plain)
    to = [(i, word, ReferenceBuilder(group if i % 2 else table)) for i, word, _ in ROWS]
    rows = DatasetBuilder("rows", to, dtype=[*plain[:2], {"name": "to", "dtype": "object"}])
    words = DatasetBuilder("words", ["a", "bb", "ccc"], dtype="utf8")
    refs = DatasetBuilder("refs", [ReferenceBuilder(group), ReferenceBuilder(table)], dtype="object")
    with ZarrIO(path, "w", format=format, **options) as io:
        io.write_builder(GroupBuilder("root", groups=[group], datasets=[table, rows, words, refs]))
    return path


def decoded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(decoded(item) for item in value)
    return value.decode() if isinstance(value, bytes) else value


INDICES: list[Any] = [
    0,
    -1,
    np.int64(1),
    slice(0, 2),
    slice(None, None, 2),
    [0, 2],
    ...,
    np.array([True, False, True]),
    "id",
    "word",
    ("word", 1),
    (slice(1, 3), "x"),
    (-1, "id"),
]


@pytest.mark.parametrize("codec", ["json", "pickle"])
@pytest.mark.parametrize("format", FORMATS)
def test_compounds_are_indexed_as_by_h5py(tmp_path: Path, format: str, codec: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dtype = [("id", "i4"), ("word", h5py.string_dtype()), ("x", "f8")]
        oracle = file.create_dataset("table", data=np.array(ROWS, dtype))
        with ZarrIO(compounds(tmp_path / "a", format, object_codec=codec)) as io:
            table = io.read_builder().datasets["table"].data
            for index in INDICES:
                want, found = oracle[index], table[index]
                assert np.shape(found) == np.shape(want)
                assert found.dtype.names == want.dtype.names if hasattr(want, "dtype") else True
                assert np.asarray(found).tolist() == decoded(np.asarray(want).tolist())
            assert table[["x", "id"]].dtype.names == ("x", "id")
            assert table[["x", "id"], 1].tolist() == (2.5, 2)
            with pytest.raises(InvalidArgumentError, match=r'no member "nope": its members are id, word, x'):
                table["nope"]


@pytest.mark.parametrize("format", FORMATS)
def test_references_of_a_compound_have_a_type_and_a_column(tmp_path: Path, format: str) -> None:
    with ZarrIO(compounds(tmp_path / "a", format)) as io:
        root = io.read_builder()
        rows, table, group = root.datasets["rows"].data, root.datasets["table"], root.groups["g"]
        assert rows["to"].dtype == object
        assert [x is y for x, y in zip(rows["to"], (group, table, group), strict=True)] == [True] * 3
        assert rows["to", 1] is table
        assert rows["id"].tolist() == [1, 2, 3] and rows["id"].dtype == np.int32
        assert rows[["word", "to"]][0].tolist() == ("one", group)
        assert rows[0]["to"] is group
        assert rows[...]["to"][1] is table  # what was read before has not been changed


@pytest.mark.parametrize("format", FORMATS)
def test_text_compounds_and_references_are_changed_in_place(tmp_path: Path, format: str) -> None:
    compounds(tmp_path / "a", format)
    with ZarrIO(tmp_path / "a", "r+") as io:
        root = io.read_builder()
        words, refs = root.datasets["words"].data, root.datasets["refs"].data
        words[2] = "x"
        words[0:2] = ["ü", "much longer than before"]
        words[[0, 2]] = "y"
        with pytest.raises(OutOfBoundsError):
            words[7] = "z"
        refs[0] = root.datasets["table"]
        root.datasets["table"].data[1] = (7, "seven", 0.5)
        words.append("last")
    store = open_store(tmp_path / "a")
    assert store.dataset("/words").read().tolist() == ["y", "much longer than before", "y", "last"]
    assert [r.path for r in store.dataset("/refs").read()] == ["/table", "/table"]
    assert store.dataset("/table").read().tolist() == [ROWS[0], (7, "seven", 0.5), ROWS[2]]
    assert not [p for p in (tmp_path / "a").rglob("*") if p.is_file() and ".chunkwise-replacing" in p.parts]


def test_a_column_of_bytes_that_the_schema_calls_text_is_changed_as_bytes(tmp_path: Path) -> None:
    for format in FORMATS:
        with ZarrIO(tmp_path / format, "w", format=format) as io:
            io.write_builder(
                GroupBuilder("root", datasets=[DatasetBuilder("d", [b"a", b"b"], dtype="ascii")])
            )
        store = open_store(tmp_path / format, consolidated=False)
        dataset = store.dataset("/d")
        from chunkwise.hdmf.model.element import text

        dataset.declare(text)
        dataset.write(0, "ü")
        dataset.append(["c"])
        assert dataset.read().tolist() == ["ü", "b", "c"]
        assert open_store(tmp_path / format, consolidated=False).dataset("/d").read().tolist() == [
            "ü".encode(),
            b"b",
            b"c",
        ]


@pytest.mark.parametrize("format", ONE)
def test_a_dataset_is_pickled(tmp_path: Path, format: str) -> None:
    with NWBZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write(file_of("intervals"))
    with NWBZarrIO(tmp_path / "a") as io:
        nwb = io.read()
        numbers = nwb.trials["start_time"].data
        packed = pickle.dumps([numbers, nwb.keywords])
        want = numbers[:].tolist()
        code = "import sys, pickle; d = pickle.load(open(sys.argv[1], 'rb'))[0]; print(d[:].tolist())"
        (tmp_path / "packed").write_bytes(packed)
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "packed")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == str(want), done.stderr[-300:]
    copy, keywords = pickle.loads(packed)
    assert copy[:].tolist() == want and keywords[:].tolist() == ["a", "bb"]
    with pytest.raises(UnsupportedError, match="reading only"):
        copy[0] = 1


class _Plain(SimpleHTTPRequestHandler):
    """Lists no directories, as most servers of files."""

    def log_message(self, *_: Any) -> None:
        pass

    def list_directory(self, path: Any) -> None:
        self.send_error(404)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Plain, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("format", ONE)
def test_a_file_on_a_plain_web_server(tmp_path: Path, server: str, format: str) -> None:
    with NWBZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write(file_of("intervals"))
    nwb = read_nwb(f"{server}/a")
    with NWBZarrIO(tmp_path / "a") as io:
        want = io.read()
        assert nwb.trials.to_dataframe().equals(want.trials.to_dataframe()) or len(nwb.trials) == len(
            want.trials
        )
        assert list(nwb.keywords[:]) == ["a", "bb"]
    if format == "n5":
        for copies in (
            b"no zlib",
            zlib.compress(b"no JSON"),
            zlib.compress(b"[]"),
            zlib.compress(b'{"store": 1}'),
        ):
            (tmp_path / "a" / COPIES).write_bytes(copies)
            with pytest.raises(DataCorruptionError, match=re.escape(COPIES)):
                read_nwb(f"{server}/a")
        (tmp_path / "a" / COPIES).unlink()
        with pytest.raises(UnsupportedError, match=r"mode r\+"):
            read_nwb(f"{server}/a")


@pytest.mark.parametrize("format", FORMATS)
def test_a_link_to_a_file_without_identity_is_told(tmp_path: Path, format: str) -> None:
    with ZarrIO(tmp_path / "a", "w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", [1, 2])]))
    with ZarrIO(tmp_path / "a") as source, ZarrIO(tmp_path / "b", "w", format=format) as io:
        from hdmf.build import LinkBuilder

        link = LinkBuilder(source.read_builder().datasets["d"], "theirs")
        with pytest.warns(UserWarning, match="has no object_id"):
            io.write_builder(GroupBuilder("root", links=[link]))
    assert open_store(tmp_path / "b").links("/")["theirs"] == Reference("/d", "../a", link=True)


@pytest.mark.parametrize("format", ONE)
def test_what_lacks_a_file_that_is_gone_is_named(tmp_path: Path, format: str) -> None:
    raw, linked = tmp_path / "raw.nwb.zarr", tmp_path / "linked.nwb.zarr"
    nwb = new_file()
    nwb.add_acquisition(TimeSeries(name="t", data=[1.0, 2.0], unit="V", timestamps=[0.0, 1.0]))
    with NWBZarrIO(raw, "w", format=format) as io:
        io.write(nwb)
    with NWBZarrIO(raw) as source:
        nwb = new_file()
        series = source.read().acquisition["t"]
        nwb.add_acquisition(TimeSeries(name="u", data=[1.0, 2.0], unit="V", timestamps=series.timestamps))
        with NWBZarrIO(linked, "w", format=format, manager=source.manager) as io:
            io.write(nwb)
    raw.rename(tmp_path / "gone")
    with (
        NWBZarrIO(linked) as io,
        pytest.raises(ValueError, match=r'link "timestamps" of group /acquisition/u.*raw'),
    ):
        io.read()
