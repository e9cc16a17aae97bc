"""Names and paths of Windows, which can be told anywhere."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from chunkwise.core.kvstore.files import file_store
from chunkwise.core.kvstore.files import path as file_path
from chunkwise.core.kvstore.files import write as file_write
from chunkwise.core.kvstore.files.platform import extended_path, name_fault
from chunkwise.core.kvstore.files.write import make_directories
from chunkwise.core.specs.kvstores.local import file_url
from chunkwise.core.specs.url import path_of_file_url
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError


@pytest.mark.parametrize(
    "name", ["a", "zarr.json", ".zarray", "0.0", "console", "com", "com10", "é", "a b", "..a"]
)
def test_names_that_every_system_takes(name: str) -> None:
    assert name_fault(name, system="win32") == name_fault(name, system="linux") == ""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[(f"a{c}b", "can't be in the name") for c in '<>:"\\|?*\n\x1f'],
        *[(name, "reserved") for name in ("con", "NUL", "aux.txt", "Com1", "lpt9.tar.gz", "prn .x", "COM¹")],
        *[(name, "final dot or space") for name in ("a.", "a ", "...", "a. ")],
    ],
)
def test_names_that_windows_does_not_take(name: str, text: str) -> None:
    assert text in name_fault(name, system="win32")
    assert name_fault(name, system="linux") == ""


def test_names_that_macos_does_not_take() -> None:
    assert name_fault("z\udcff", system="darwin") == "macOS takes names in UTF-8 only"
    assert name_fault("z\udcff", system="linux") == name_fault("a:b", system="darwin") == ""


def test_long_paths() -> None:
    long = "/".join(["directory"] * 40)
    there = long.replace("/", "\\")
    assert extended_path(f"C:/{long}", windows=True) == f"\\\\?\\C:\\{there}"
    assert extended_path(
        f"//server/share/{long}", windows=True
    ) == "\\\\?\\UNC\\server\\share\\" + long.replace("/", "\\")
    assert extended_path("C:/short", windows=True) == "C:/short"
    assert extended_path(f"/{long}", windows=False) == f"/{long}"
    twice = extended_path(extended_path(f"C:/{long}", windows=True), windows=True)
    assert twice == extended_path(f"C:/{long}", windows=True)


@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("name", ["directory", "file"])
def test_a_file_where_a_directory_belongs(tmp_path: Path, monkeypatch: Any, name: str, windows: bool) -> None:
    """On Windows, the next call wouldn't say that a file is in the way, as it does elsewhere."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setattr(file_write, "WINDOWS", windows)
    made: list[str] = []
    refused = pytest.raises(NotADirectoryError, match="file") if windows and name == "file" else nullcontext()
    with refused:
        make_directories(str(tmp_path / name), made, sync=False)
    assert not made


PATHS = {
    "file:///data/a.zarr/": "/data/a.zarr/",
    "file:///C:/data/a%20b": "C:/data/a b",
    "file:///c:/": "c:/",
    "file://server/share/a/": "//server/share/a/",
}


@pytest.mark.parametrize("url", PATHS)
def test_urls_of_files_on_windows(url: str) -> None:
    """A drive or a server is part of the path, and is found again in its URL."""
    path = PATHS[url]
    encoded = url.removeprefix("file://").replace("%20", " ")
    assert path_of_file_url(encoded, windows=True) == path
    assert file_url(path, windows=True) == url


def test_urls_of_files_elsewhere() -> None:
    """Drives are plain names there, and servers an error."""
    assert path_of_file_url("/C:/data", windows=False) == "/C:/data"
    with pytest.raises(InvalidArgumentError, match="do not support authority"):
        path_of_file_url("server/share", windows=False)
    for path in ("C:/data", "data", "data/a"):
        with pytest.raises(InvalidArgumentError, match="do not support relative paths"):
            file_url(path, windows=False)
    for path in ("data", "C:data"):
        with pytest.raises(InvalidArgumentError, match="do not support relative paths"):
            file_url(path, windows=True)


def test_a_name_in_other_case_is_found_where_the_system_folds_names(tmp_path: Path, monkeypatch: Any) -> None:
    """A system that takes "abc" for "ABC" says that "abc" is there; its listing says what it is called."""
    (tmp_path / "Deep" / "ABC").mkdir(parents=True)
    found = os.lstat
    folded = {name.lower(): name for name in ("Deep", "ABC")}

    def lstat(path: str) -> os.stat_result:
        parts = str(path).split("/")
        return found("/".join(folded.get(part.lower(), part) for part in parts))

    monkeypatch.setattr(file_path, "FOLDS_NAMES", True)
    monkeypatch.setattr(file_path.os, "lstat", lstat)
    root = f"{tmp_path}/"
    assert file_path.other_case(root, "Deep/ABC") == ""
    assert file_path.other_case(root, "Deep/abc") == "ABC"
    assert file_path.other_case(root, "deep/ABC") == "Deep"
    assert file_path.other_case(root, "Deep/new") == ""
    with pytest.raises(FailedPreconditionError, match='"ABC" is there, which the system takes for "abc"'):
        file_path.check_case(root, "Deep/abc")
    file_path.check_case(root, "Deep/ABC")

    monkeypatch.setattr(file_store, "FOLDS_NAMES", True)
    store = file_store.FileStore(root)
    for source, target in (("Deep/abc", "new"), ("Deep/ABC", "deep/new")):
        with pytest.raises(FailedPreconditionError, match="is there, which the system takes for"):
            store.move_directory(source, target)
    store.move_directory("Deep/ABC", "Deep/new")
    assert os.listdir(tmp_path / "Deep") == ["new"]
