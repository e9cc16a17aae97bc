"""The page on remote storage runs as it is, on servers of this machine, and its table of stores is true."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.cli.main import main
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.libraries.fsspec import FsspecStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.web.http import HttpStore

PAGE = (Path(__file__).parents[2] / "docs" / "remote.md").read_text()
CODE = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL))


@pytest.fixture
def bucket(moto: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket of the page, on a server that the environment names."""
    import boto3

    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="science")
    for entry in client.list_objects_v2(Bucket="science").get("Contents", []):
        client.delete_object(Bucket="science", Key=entry["Key"])


def test_the_code(
    bucket: None,
    run_server: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each block prints what its comments say."""
    web = tmp_path / "web"
    values = np.arange(1, 17, dtype="u2").reshape(4, 4)
    made = ts.open(
        f"file://{web}/plate.zarr/|zarr3:", create=True, dtype=ts.uint16, shape=[4, 4],
        chunk_layout=ts.ChunkLayout(chunk_shape=[2, 2]),
    ).result()  # fmt: skip
    made[...] = values
    assert main(["zip", f"{web}/plate.zarr", f"{web}/plate.zip"]) == 0
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    url = run_server("http_server.py", str(web))
    exec(compile(CODE.replace("https://data.example.org", url), "docs/remote.md", "exec"), {})
    promised: list[str] = []
    for comment in re.findall(r"print\(.*\)  # (.*)", CODE):
        promised += comment.split(", then ")
    assert capsys.readouterr().out.splitlines() == promised


def test_the_plan(bucket: None, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command prints is on the page, but for the URL of the server."""
    exec(CODE.split("store = ts.KvStore")[0], {})
    capsys.readouterr()
    command, *shown = re.search(r"```console\n\$ (.*?)```", PAGE, flags=re.DOTALL)[1].splitlines()
    assert main(command.replace("'", "").split()[1:]) == 0
    told = re.sub(r"\d+ threads", "4 threads", capsys.readouterr().out)  # as many as there are processors
    assert told.splitlines()[1:] == shown[1:]


def test_errors_are_what_the_page_says() -> None:
    """Each exception in the table has the builtin type that it says."""
    rows = re.findall(r"^\|[^|]*\| `(\w+Error)` \| `(\w+Error)` \|$", PAGE, flags=re.MULTILINE)
    assert len(rows) == 11
    for name, builtin in rows:
        assert issubclass(getattr(errors, name), __builtins__[builtin]), name  # type: ignore[index]


def stores(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Callable[[], Any]]:
    def gcs() -> ObjectStore:
        patch = request.getfixturevalue("monkeypatch")
        patch.setenv("STORAGE_EMULATOR_HOST", request.getfixturevalue("run_server")("gcs_server.py"))
        return ObjectStore(GcsBucket("bucket"))

    return {
        "memory": MemoryStore,
        "file": lambda: FileStore(tmp_path, sync=False),
        "zip on file": lambda: ZipStore(FileStore(tmp_path, sync=False), "x.zip"),
        "s3 (moto, Ceph)": lambda: request.getfixturevalue("s3"),
        "azure (azurite)": lambda: request.getfixturevalue("azure"),
        "gcs (emulated)": gcs,
        "http": lambda: HttpStore(request.getfixturevalue("run_server")("http_server.py", str(tmp_path))),
        "fsspec": lambda: FsspecStore(
            fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file"))
        ),
    }


TABLE = re.search(r"## Abilities of each store\n\n(.*?)\n\n", PAGE, flags=re.DOTALL)[1]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines()[2:]]


@pytest.mark.parametrize("row", ROWS, ids=[row[0].split()[0] for row in ROWS])
def test_what_each_store_can_do(request: pytest.FixtureRequest, tmp_path: Path, row: list[str]) -> None:
    """The table says what happens when it is tried."""
    name, writes, lists, parts, deletes, last = row
    made = stores(request, tmp_path)
    assert set(made) == {row[0] for row in ROWS}
    store = made[name]()

    def works(action: Callable[[], Any]) -> bool:
        try:
            action()
        except errors.UnsupportedError:
            return False
        return True

    assert works(lambda: store.write("k", b"0123456789")) == (writes == "yes")
    assert works(lambda: list(store.list())) == (lists == "yes")
    traits = traits_of(store)
    assert (writes == "yes" and traits.conditional_writes("k")) == (parts == "yes")
    assert (writes == "yes" and traits.conditional_deletes) == (deletes == "yes")
    if writes == "yes":
        assert bytes(store.open_reader()("k", -3)) == b"789"
        assert traits.suffix_ranges == (last == "yes")
