"""A web server of a directory, which lists nothing, as most servers of data do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

__all__ = ["served"]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yield the URL of a directory, without a slash at the end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = folder / unquote(self.path).strip("/")
            if self.path.endswith("/") or not path.is_file():
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            value = path.read_bytes()
            size, status, content_range = len(value), 200, ""
            first, dash, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
            if dash:
                start = int(first) if first else max(0, size - int(last))
                value = value[start : int(last) + 1 if first and last else size]
                status = 206 if value else 416
                content_range = (
                    f"bytes {start}-{start + len(value) - 1}/{size}" if value else f"bytes */{size}"
                )
            self.send_response(status)
            self.send_header("Content-Length", str(len(value)))
            self.send_header("ETag", f'"{path.stat().st_mtime_ns}"')
            if dash:
                self.send_header("Content-Range", content_range)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(value)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
