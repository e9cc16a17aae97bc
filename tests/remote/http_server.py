"""A web server of the files below a directory, with ranges and ETags: ``http_server.py PORT DIRECTORY``.

With ``--no-ranges`` it sends everything whatever is asked for.
"""

from __future__ import annotations

import asyncio
import os
import sys
from urllib.parse import unquote, urlsplit

ROOT = sys.argv[2]
RANGES = "--no-ranges" not in sys.argv


def answer(method: str, target: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    path = os.path.join(ROOT, unquote(urlsplit(target).path).lstrip("/"))
    if not os.path.isfile(path):
        return 404, {}, b"not found"
    with open(path, "rb") as file:
        body = file.read()
        status = os.fstat(file.fileno())
    out = {"ETag": f'"{status.st_mtime_ns:x}-{status.st_size:x}"', "Accept-Ranges": "bytes"}
    if headers.get("if-none-match") == out["ETag"]:
        return 304, out, b""
    wanted = headers.get("range", "") if RANGES else ""
    if not wanted.startswith("bytes="):
        return 200, out, body
    first, _, last = wanted[6:].partition("-")
    size = len(body)
    begin = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if begin >= size:
        return 416, {**out, "Content-Range": f"bytes */{size}"}, b""
    return 206, {**out, "Content-Range": f"bytes {begin}-{end - 1}/{size}"}, body[begin:end]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            pairs = (line.partition(":") for line in head[1:] if line)
            status, out, body = answer(method, target, {k.lower(): v.strip() for k, _, v in pairs})
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
            lines += [f"{k}: {v}" for k, v in out.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=1000, limit=1 << 20)
    await server.serve_forever()


asyncio.run(main())
