"""Google Cloud Storage in memory, for the XML requests that are used: ``gcs_server.py PORT``."""

from __future__ import annotations

import itertools
import sys
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

OBJECTS: dict[str, tuple[bytes, int]] = {}
GENERATIONS = itertools.count(1000)
LOCK = Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status: int, code: str) -> None:
        self.send(status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    def split(self) -> tuple[str, str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        return bucket, unquote(key), parse_qs(parts.query, keep_blank_values=True)

    def told(self, key: str) -> dict[str, str]:
        value, generation = OBJECTS[key]
        return {
            "ETag": f'"{generation:x}-{len(value)}"',
            "x_goog_generation": str(generation),
            "Last_Modified": formatdate(usegmt=True),
        }

    def do_GET(self) -> None:
        bucket, key, query = self.split()
        if bucket != "bucket":
            return self.error(404, "NoSuchBucket")
        if not key:
            return self.list(query)
        with LOCK:
            if key not in OBJECTS:
                return self.error(404, "NoSuchKey")
            value, told = OBJECTS[key][0], self.told(key)
        if self.headers.get("If-None-Match", "") == told["ETag"]:
            return self.send(304, **told)
        if self.headers.get("If-Match", told["ETag"]) != told["ETag"]:
            return self.error(412, "PreconditionFailed")
        wanted = self.headers.get("Range")
        if wanted is None:
            if self.command == "HEAD":
                self.send_response(200)
                for name, text in told.items():
                    self.send_header(name.replace("_", "-"), text)
                self.send_header("Content-Length", str(len(value)))
                return self.end_headers()
            return self.send(200, value, **told)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(0, len(value) - int(last))
        end = min(len(value), int(last) + 1) if first and last else len(value)
        if begin >= len(value):
            return self.error(416, "InvalidRange")
        self.send(206, value[begin:end], Content_Range=f"bytes {begin}-{end - 1}/{len(value)}", **told)

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        bucket, key, _ = self.split()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if bucket != "bucket":
            return self.error(404, "NoSuchBucket")
        with LOCK:
            wanted = self.headers.get("x-goog-if-generation-match")
            current = OBJECTS.get(key, (b"", 0))[1]
            if wanted is not None and int(wanted) != current:
                return self.error(412, "PreconditionFailed")
            OBJECTS[key] = body, next(GENERATIONS)
            told = self.told(key)
        self.send(200, **told)

    def do_DELETE(self) -> None:
        _, key, _ = self.split()
        with LOCK:
            found = OBJECTS.pop(key, None)
        self.send(204) if found else self.error(404, "NoSuchKey")

    def list(self, query: dict[str, list[str]]) -> None:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        after, size = query.get("continuation-token", [""])[0], int(query.get("max-keys", ["3"])[0])
        entries: dict[str, str] = {}
        with LOCK:
            for key in sorted(OBJECTS):
                if not key.startswith(prefix):
                    continue
                cut = key.find(delimiter, len(prefix)) if delimiter else -1
                if cut >= 0:
                    name = key[: cut + 1]
                    entries[name] = f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
                    continue
                entries[key] = (
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                    f"<Size>{len(OBJECTS[key][0])}</Size><ETag>{self.told(key)['ETag']}</ETag></Contents>"
                )
        names = [name for name in entries if name > after]
        page, more = names[:size], len(names) > size
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        body = "".join(entries[name] for name in page)
        cut_off = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        self.send(200, f"<ListBucketResult>{cut_off}{token}{body}</ListBucketResult>".encode())

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 100


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
