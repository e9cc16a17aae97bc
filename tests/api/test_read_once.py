"""`read` asks a server for each document and each chunk once."""

import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw

VALUES = np.arange(64).reshape(8, 8)


@pytest.mark.parametrize(("format", "most"), [("zarr3", 3), ("zarr2", 6), ("n5", 8)])
def test_nothing_is_asked_for_twice(format: str, most: int, tmp_path: Path) -> None:
    cw.create_array(tmp_path / "a", VALUES, chunks=(4, 8), format=format)
    asked = list[str]()

    class Files(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        np.testing.assert_array_equal(cw.read(f"http://127.0.0.1:{server.server_port}/a"), VALUES)
        server.shutdown()
    assert len(asked) <= most
    if format != "n5":
        assert sorted(asked) == sorted(set(asked))
