"""`read` asks a server for each document and each chunk once."""

import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw

VALUES = np.arange(64).reshape(8, 8)


@pytest.mark.parametrize(
    ("format", "name", "most"),
    [("zarr3", "a", 3), ("zarr2", "a", 6), ("n5", "a", 7), ("n5", "c.n5/a", 8), ("n5", "too_new.n5/a", 6)],
)
def test_nothing_is_asked_for_twice(format: str, name: str, most: int, tmp_path: Path) -> None:
    cw.create_array(tmp_path / name, VALUES, chunks=(4, 8), format=format)
    is_refused = name.startswith("too_new")
    if is_refused:
        (tmp_path / "too_new.n5/attributes.json").write_text('{"n5": "5.0.0"}')
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
        url = f"http://127.0.0.1:{server.server_port}/{name}"
        if is_refused:
            with pytest.raises(NotImplementedError, match="Incompatible N5 version"):
                cw.read(url)
        else:
            np.testing.assert_array_equal(cw.read(url), VALUES)
        server.shutdown()
    assert len(asked) <= most and sorted(asked) == sorted(set(asked))
