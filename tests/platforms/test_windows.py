"""Files as Windows has them, simulated: what fails there, names, drives, values that others read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def platform() -> str:
    return "windows"


def test_the_platform_is_simulated(run: Any, tmp_path: Path) -> None:
    """What the other tests stand on: each way to be careless with a file fails."""
    code = """
import os, sys
path = sys.argv[1] + "/file"
def fails(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return True
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.write(fd, b"1\\n")
assert os.fstat(fd).st_size == 3  # in text mode
assert fails(os.unlink, path) and fails(os.replace, path, path + "2")
other = os.open(path + "2", os.O_WRONLY | os.O_CREAT | os.O_BINARY)
os.close(fd)
assert fails(os.replace, path, path + "2") and fails(os.rename, path, path + "2")
os.close(other)
os.replace(path, path + "2")
assert os.path.exists(sys.argv[1] + "/FILE2") and fails(os.open, sys.argv[1], os.O_RDONLY)
assert not hasattr(os, "pread") and not hasattr(os, "O_NOFOLLOW") and not hasattr(os, "fork")
try:
    import fcntl
except ImportError:
    print("no fcntl")
"""
    assert run(code, tmp_path) == "no fcntl\n"


NAMES = """
import sys
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, UnsupportedError
from chunkwise.core.kvstore.files.file_store import FileStore
store = FileStore(sys.argv[1], sync=False)
def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as e:
        print(str(e).replace(sys.argv[1], ""))
for key in ("CON", "d/nul.txt", "a:b", "a/b.", "a ", "q\\n", "a?/b"):
    refused(InvalidArgumentError, store.write, key, b"")
store.write("Group/zarr.json", b"1")
writer = store.open_writer()
refused(FailedPreconditionError, store.write, "group/zarr.json", b"2")
refused(FailedPreconditionError, writer.write, "Group/ZARR.json", b"2")
refused(FailedPreconditionError, store.delete, "group/zarr.json")
assert store.read("Group/zarr.json").value == b"1"
refused(UnsupportedError, lambda: FileStore(sys.argv[1], io_mode="memmap"))
"""


def test_names_that_are_no_names_there(run: Any, tmp_path: Path) -> None:
    assert run(NAMES, tmp_path).splitlines() == [
        'Invalid key: "/CON": Windows has reserved the name for a device',
        'Invalid key: "/d/nul.txt": Windows has reserved the name for a device',
        "Invalid key: \"/a:b\": ':' can't be in the name of a file on Windows",
        'Invalid key: "/a/b.": Windows drops a final dot or space',
        'Invalid key: "/a ": Windows drops a final dot or space',
        "Invalid key: \"/q\\n\": '\\n' can't be in the name of a file on Windows",
        "Invalid key: \"/a?/b\": '?' can't be in the name of a file on Windows",
        'FAILED_PRECONDITION: Can\'t change "/group/zarr.json": "Group" is there, which the system takes for '
        '"group"',
        'FAILED_PRECONDITION: Can\'t change "/Group/ZARR.json": "zarr.json" is there, which the system takes '
        'for "ZARR.json"',
        'FAILED_PRECONDITION: Can\'t change "/group/zarr.json": "Group" is there, which the system takes for '
        '"group"',
        "io_mode memmap is not supported on Windows, which replaces no mapped file",
    ]


READERS = """
import sys, threading
from chunkwise.core.kvstore.files.file_store import FileStore
store = FileStore(sys.argv[1], sync=False)
values = [bytes([i]) * 50_000 for i in range(2)]
store.write("k", values[0])
done, seen = threading.Event(), []
def read():
    reader = store.open_reader()
    while not done.is_set():
        seen.append(bytes(reader("k")) in values)
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
writer = store.open_writer()
for i in range(200):
    (store if i % 3 else writer).write("k", values[i % 2])
done.set()
for thread in threads:
    thread.join()
print(all(seen), len(seen) > 100)
"""


def test_values_are_replaced_while_others_read_them(run: Any, tmp_path: Path) -> None:
    assert run(READERS, tmp_path) == "True True\n"


DRIVES = """
import os, sys
import numpy as np
import sitecustomize
import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.images.server.trees import ConfinedStore
c, d, share = sys.argv[1:]
sitecustomize.use_drives({"C:": c, "D:": d, "//server/share": share})
long = "/".join(["directory"] * 40)
places = {
    "C:\\\\data\\\\a.zarr": "file:///C:/data/a.zarr/",
    "C:/data/b.zarr": "file:///C:/data/b.zarr/",
    "d:\\\\my data\\\\c.zarr": "file:///d:/my%20data/c.zarr/",
    "D://e.zarr": "file:///D:/e.zarr/",
    "data\\\\f.zarr": "file:///C:/data/f.zarr/",
    "\\\\\\\\server\\\\share\\\\g.zarr": "file://server/share/g.zarr/",
    "//server/share/h.zarr": "file://server/share/h.zarr/",
    f"C:/{long}/i.zarr": f"file:///C:/{long}/i.zarr/",
    f"//server/share/{long}/j.zarr": f"file://server/share/{long}/j.zarr/",
}
values = np.arange(6)
for place, url in places.items():
    assert cw.create_array(place, values).kvstore.url == url, place
    path = os.path.abspath(place)
    for name in (
        place,
        url,
        f"{url}|zarr3:",
        f"{place}|zarr3:",
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": path}},
        {"driver": "zarr3", "kvstore": url},
    ):
        array = cw.open(name).result()
        assert array.kvstore.url.rstrip("/").lower() == url.rstrip("/").lower(), name
        array[0] = 7
        assert array.read().result().tolist() == cw.read(place).tolist() == [7, 1, 2, 3, 4, 5], name
        array[0] = 0
    for text in (place, url):
        assert main(["info", text]) == main(["verify", text]) == 0
    assert main(["cp", place, path + "-2"]) == main(["cp", url, url.rstrip("/") + "-3"]) == 0
    assert cw.read(path + "-2").tolist() == cw.read(path + "-3").tolist() == values.tolist()

tree = cw.create_group("C:/tree")
sources = ["D:\\\\other", "d:/other", "file:///D:/other", "\\\\\\\\server\\\\share\\\\tree", "file://server/share/tree"]
for i, source in enumerate(sources):
    group = cw.open_group(source, "a")
    group.create_array("a", data=[i], overwrite=True)
    tree.create_link(f"link{i}", "/a", source=source)
    linked = cw.open_group("C:\\\\tree", external_links=True)[f"link{i}"]
    assert linked.read().result().tolist() == [i], source
confined = ConfinedStore(f"C:\\\\{long}")
assert confined.size("i.zarr/zarr.json") == len(confined.read("i.zarr/zarr.json").value)
for directory in (c, d, share):
    print(*sorted(os.listdir(directory)))
"""


def test_drives_and_shares(run: Any, tmp_path: Path) -> None:
    """In specs, URLs, commands and links, with either slash and of any length."""
    directories = [tmp_path / name for name in "cds"]
    for directory in directories:
        directory.mkdir()
    lines = run(DRIVES, *directories).splitlines()
    assert lines[-3:] == [
        "data directory tree",
        "e.zarr e.zarr-2 e.zarr-3 my data other",
        "directory g.zarr g.zarr-2 g.zarr-3 h.zarr h.zarr-2 h.zarr-3 tree",
    ]
