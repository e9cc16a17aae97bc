"""``chunkwise serve`` and ``chunkwise view``: what they print, what they refuse, how they end."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import chunkwise
from chunkwise.cli.main import main


@pytest.fixture
def array(tmp_path: Path) -> Path:
    chunkwise.create_array(tmp_path / "a.zarr", np.zeros((8, 8), "u2"), chunks=(4, 4))
    return tmp_path / "a.zarr"


@pytest.mark.parametrize(
    "command", [["serve"], ["view", "--no-browser"], ["view", "--no-browser", "--neuroglancer"]]
)
def test_urls_are_printed_and_an_interrupt_ends_it(children, ask, array: Path, command: list[str]) -> None:
    code = "import sys; from chunkwise.cli.main import main; sys.exit(main(sys.argv[1:]))"
    process = children.python(
        code, *command, array, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines = []
    while not lines or not lines[-1].startswith("fsspec"):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    urls = dict(line.split(maxsplit=1) for line in lines)
    page = urls["page"].strip()
    assert ask(f"{page}zarr3/a.zarr/zarr.json").status == 200
    assert f"{page}zarr3/a.zarr" in urls["zarr-python"]
    assert ("viewer" in urls) == ("--neuroglancer" in command)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert "Traceback" not in process.stderr.read()


def test_wrong_options_and_paths(array: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, words in (
        (["--port", "70000"], "--port"),
        (["--token", "a/b"], "--token"),
        (["--max-requests", "0"], "--max-requests"),
        (["--max-memory", "lots"], "--max-memory"),
        (["--token", "a", "--no-token"], "--no-token"),
    ):
        assert main(["serve", str(array), *options]) == 2, options
        assert words in capsys.readouterr().err
    assert main(["serve", str(array.with_name("b.zarr"))]) == 1
    assert 'near it there is "a.zarr"' in capsys.readouterr().err


def test_a_port_in_use(array: Path, free_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with chunkwise.serve(array, port=free_port):
        for command in (["serve"], ["view", "--no-browser"]):
            assert main([*command, str(array), "--port", str(free_port)]) == 1
            words = f"chunkwise: port {free_port} of 127.0.0.1 is in use; choose another"
            assert capsys.readouterr().err.startswith(words)


def test_the_application_answers_without_a_server_of_ours(array: Path) -> None:
    import asyncio

    async def get(path: str) -> tuple[int, bytes]:
        sent: list[dict] = []

        async def receive() -> dict:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"host", b"x")], "scheme": "http", "server": ("x", 80), "root_path": "",
            "http_version": "1.1",
        }  # fmt: skip
        await chunkwise.asgi_app(array)(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    status, body = asyncio.run(get("/zarr3/a.zarr/zarr.json"))
    assert (status, json.loads(body)["shape"]) == (200, [8, 8])
    assert asyncio.run(get("/zarr3/a.zarr/c/9/9"))[0] == 404
