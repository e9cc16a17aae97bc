"""Places with a password, given to functions and commands: none is in what these show, store or pickle."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

sys.path.insert(0, str(Path(__file__).parent))

from test_web_servers import answer, web

import chunkwise as ts
from chunkwise import errors
from chunkwise.cli.main import main
from chunkwise.core.specs.url import shown_text
from chunkwise.images.server.sources import sources_of

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a group of an array, below a URL with a password."""
    top = tmp_path_factory.mktemp("served")
    ts.create_group(top / "g").create_array("x", np.arange(4), dimension_names=["i"])
    assert main(["consolidate", str(top / "g")]) == 0
    values = {f"/{path.relative_to(top)}": path.read_bytes() for path in top.rglob("*") if path.is_file()}

    def answers(target: str, head: str) -> Iterator[bytes]:
        yield answer(values[target]) if target in values else answer(b"", 404)

    values |= {name.removeprefix("/g"): value for name, value in values.items()}
    with web(answers) as server:
        yield server.url.replace("//", f"//me:{SECRET}@") + "/g"


FUNCTIONS: dict[str, Callable[[str, Path], Any]] = {
    "open": lambda url, path: ts.open(url).result(),
    "open_array": lambda url, path: ts.open_array(url),
    "open_group": lambda url, path: ts.open_group(url),
    "open_multiscale": lambda url, path: ts.open_multiscale(url),
    "read": lambda url, path: ts.read(url),
    "copy": lambda url, path: ts.copy(url, path / "a"),
    "copy_tree": lambda url, path: ts.copy_tree(url, path / "t"),
    "copy to it": lambda url, path: ts.copy(ts.array([1]), url),
    "verify": lambda url, path: ts.verify(url),
    "diff": lambda url, path: ts.diff(url, url),
    "migrate": lambda url, path: ts.migrate(url),
    "create_array": lambda url, path: ts.create_array(url, np.zeros(2)),
    "create_group": lambda url, path: ts.create_group(url),
    "to_dask": lambda url, path: ts.to_dask(url),
    "open_n5_blocks": lambda url, path: ts.open_n5_blocks(url),
    "z5py": lambda url, path: ts.z5py.File(url, "r"),
    "xarray": lambda url, path: xr.open_dataset(url, engine="chunkwise"),
    "hdmf": lambda url, path: ts.hdmf.open_store(url),
    "write_dataset": lambda url, path: ts.xarray.write_dataset(xr.Dataset({"x": ("i", [1])}), url),
}
BELOW = ("", "/x", "/none", "/x/below", "#f", "|no:", "|n5:")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, url: str, tmp_path: Path) -> None:
    """Whatever is at the place: the result, its pickle and the error."""
    shown: dict[str, object] = {}
    for at in (*(url + below for below in BELOW), url.replace("127", "[127"), f"s3://me:{SECRET}@bucket/a"):
        try:
            found = FUNCTIONS[name](at, tmp_path)
        except Exception as e:
            assert isinstance(e, errors.ChunkwiseError | OSError | ValueError | KeyError | TypeError)
            shown[at] = f"{e} {getattr(e, '__notes__', '')}"
        else:
            shown[at] = f"{found!r} {found}"
            with suppress(TypeError, AttributeError, pickle.PicklingError):  # not all can be pickled
                shown[at] = f"{shown[at]} {pickle.dumps(found)!r}"
    wrong = [f"{at}: {text}" for at, text in shown.items() if SECRET in str(text)]
    assert not wrong, "\n".join(wrong)
    stored = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in stored if SECRET.encode() in path.read_bytes()]


def test_names_of_what_is_served(url: str) -> None:
    """The root of a server is called like its host."""
    names = list(sources_of(url, url.removesuffix("/g")))
    assert names[0] == "g" and names[1].startswith("127.0.0.1:")


COMMANDS = (
    *("info", "ls", "tree", "attrs", "status", "verify", "consolidate", "migrate", "rm"),
    *("slice URL 0:2", "cp URL OUT", "cp -r URL OUT", "cp -r OUT URL", "diff URL URL", "mv URL URL/y"),
    *("create URL --shape 3 --dtype int8", "nwb info", "nwb convert URL OUT", "zip URL OUT.zip", "image"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a command prints, as text and as JSON."""
    wrong = []
    for number, below in enumerate(("", "/x", "/none")):
        for json in ([], ["--json"]):
            words = (command if "URL" in command else f"{command} URL").split()
            out = str(tmp_path / f"out{number}{len(json)}")
            given = [word.replace("URL", url + below).replace("OUT", out) for word in words]
            with suppress(SystemExit):
                main([*given, *json])
            printed = capsys.readouterr()
            if SECRET in printed.out + printed.err:
                wrong.append(f"{below} {json}: {printed}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://me:pw@h:80/a?b=c@d", "http://h:80/a?b=c@d"),
        ("zip::HTTPS://token@h/a.zip", "zip::HTTPS://h/a.zip"),
        ("s3://key:pw@bucket/a", "s3://bucket/a"),
        *((text, text) for text in ("abfs://container@account/a", "http://h/a:b@c", "a:b@c", "C:\\a@b")),
    ],
)
def test_the_text_of_a_place(given: str, shown: str) -> None:
    """Only what comes before the host is left out; in Azure's URLs it is the container."""
    assert shown_text(given) == shown
