"""moto's S3 server on a port of 127.0.0.1, one write at a time: ``python moto_server.py PORT``.

moto compares If-Match and stores the value in two steps, so that of two writes at once both can pass the
comparison and one update is lost.  S3 promises that this does not happen.
"""

from __future__ import annotations

import sys
import threading
from io import BytesIO
from typing import Any

from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class OneWriteAtATime:
    """Requests that only read pass; others wait for each other, once their bodies have arrived."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._app(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length:
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(length))
        with self._lock:
            return list(self._app(environ, start_response))


class Quick(WSGIRequestHandler):
    """Requests are not logged, which takes a tenth of their time; bodies don't wait for their heads."""

    disable_nagle_algorithm = True

    def log_request(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    # S3 alone: moto's dispatcher looks through its folders for the service of each request.
    application = OneWriteAtATime(create_backend_app("s3"))
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=Quick)
