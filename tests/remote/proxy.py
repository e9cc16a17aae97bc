"""A proxy that makes requests slow or lets them go wrong: ``proxy.py PORT UPSTREAM_URL``.

``PUT /proxy`` with a JSON object sets what happens; ``GET /proxy`` returns the log of requests since, and
``GET /proxy/flight`` how many were under way when each of them came, itself included, ``GET /proxy/sizes``
the bytes of each answer, ``GET /proxy/times`` when each that was delayed came and was passed on::

    {"delay": 0.02, "faults": [{"method": "GET", "path": "c/0", "action": "503", "times": 2}]}

With ``gather``, a number, requests wait for others: until so many have been under way together, once and for
all, or none has come for the delay.

Actions: a number is a status that is sent in place of an answer, with ``body``; ``reset`` closes the
connection; ``reset_after`` does when the server has answered; ``truncate`` sends half of the body;
``slow`` sends the body in pieces over a second; ``etag`` changes the ETag.

Settings that make another server of the one behind: ``ignore_conditions`` drops the conditions of
writes; ``bare_e_tags`` fails those with quotation marks and adds them to others; ``refuse_signed`` refuses
requests with credentials; ``tags`` says what becomes of ETags in answers to a method: ``{"GET": "none"}``
drops them, ``"weak"`` makes them weak, ``"other"`` changes them alike in all answers; ``only``
is the beginning of the keys that there is a right to, by name or by listing; ``hide_missing`` refuses
listings and keys that aren't there, as buckets do that may not be listed; ``secret`` is that of the key with
which requests must be signed.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import time
from functools import reduce
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

UPSTREAM = urlsplit(sys.argv[2])
SETTINGS: dict[str, Any] = {"delay": 0.0, "faults": []}
LOG: list[str] = []
FLIGHT: list[int] = []
SIZES: list[int] = []
TIMES: list[tuple[float, float]] = []
WAITING: list[int] = []
ARRIVED = [0.0]
"""When the last request came that was delayed."""
IDLE: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []


async def read_message(reader: asyncio.StreamReader, *, bodiless: bool = False) -> tuple[bytes, bytes]:
    """Return head and body of a message."""
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100"):
        return await read_message(reader, bodiless=bodiless)
    lower = head.lower()
    if bodiless or b" 304 " in head[:13] or b" 204 " in head[:13]:
        return head, b""
    if b"content-length:" in lower:
        n = int(lower.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return head, await reader.readexactly(n) if n else b""
    if b"transfer-encoding: chunked" in lower:
        body = b""
        while True:
            size = await reader.readuntil(b"\r\n")
            chunk = await reader.readexactly(int(size.split(b";")[0], 16) + 2)
            if len(chunk) == 2:
                break
            body += chunk[:-2]
        at = lower.index(b"transfer-encoding: chunked")
        end = head.index(b"\r\n", at)
        return head[:at] + b"Content-Length: %d" % len(body) + head[end:], body
    return head, b""


def fault_for(method: str, path: str) -> dict[str, Any] | None:
    for fault in SETTINGS["faults"]:
        if fault.get("method", method) == method and fault.get("path", "") in path and fault.get("times", 1):
            fault["times"] = fault.get("times", 1) - 1
            return dict(fault)
    return None


async def forward(head: bytes, body: bytes, method: str) -> tuple[bytes, bytes]:
    while True:
        fresh = not IDLE
        if fresh:
            reader, writer = await asyncio.open_connection(UPSTREAM.hostname, UPSTREAM.port, limit=1 << 20)
        else:
            reader, writer = IDLE.pop()
        try:
            writer.write(head + body)
            answer = await read_message(reader, bodiless=method == "HEAD")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            if fresh:
                raise
            continue
        if b"connection: close" in answer[0].lower():
            writer.close()
        else:
            IDLE.append((reader, writer))
        return answer


def other_server(method: str, head: bytes) -> bytes | int:
    """Return the head of a request as another server would understand it, or the status it would send."""
    lines = head.split(b"\r\n")
    names = [line.lower().partition(b":")[0] for line in lines]
    if SETTINGS.get("refuse_signed") and b"authorization" in names:
        return 403
    if SETTINGS.get("refuse_signed"):  # moto wants to see credentials
        lines.insert(1, b"Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request")
    if SETTINGS.get("ignore_conditions") and method == "PUT":
        lines = [line for line in lines if not line.lower().startswith((b"if-match:", b"if-none-match:"))]
    if SETTINGS.get("bare_e_tags") and method == "PUT":
        for i, line in enumerate(lines):
            if line.lower().startswith(b"if-match:"):
                if b'"' in line:
                    return 412
                lines[i] = b'If-Match: "' + line.partition(b":")[2].strip() + b'"'
    return b"\r\n".join(lines)


def refusal(method: str, path: str, head: bytes) -> str:
    """Return the code of the error of a server that compares signatures of requests; "" if it has none."""
    if "secret" not in SETTINGS:
        return ""
    lines = head.decode("latin-1").split("\r\n")[1:]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "authorization" not in headers:
        return "AccessDenied"
    members = headers["authorization"].partition(" ")[2].replace(",", " ").split()
    told = dict(member.split("=", 1) for member in members)
    scope, names, place = told["Credential"].split("/")[1:], told["SignedHeaders"], urlsplit(path)
    query = sorted((quote(k, ""), quote(v, "")) for k, v in parse_qsl(place.query, keep_blank_values=True))
    canonical = [method, place.path, "&".join(f"{k}={v}" for k, v in query)]
    canonical += [*(f"{name}:{headers[name]}" for name in names.split(";")), "", names]
    digest = hashlib.sha256("\n".join([*canonical, headers["x-amz-content-sha256"]]).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], "/".join(scope), digest])
    sign = lambda key, part: hmac.digest(key, part.encode(), "sha256")  # noqa: E731
    right = reduce(sign, [*scope, text], f"AWS4{SETTINGS['secret']}".encode()).hex()
    return "" if right == told["Signature"] else "SignatureDoesNotMatch"


async def gathered() -> None:
    """Wait until enough requests have been under way together, or no other has come for the delay."""
    while max(FLIGHT, default=0) < SETTINGS.get("gather", 0):
        rest = ARRIVED[0] + SETTINGS["delay"] - time.monotonic()
        if rest <= 0:
            break
        await asyncio.sleep(min(rest, 0.01))


def denied(path: str) -> bool:
    """Return True if there is no right to what a request is about."""
    only = SETTINGS.get("only")
    place = urlsplit(path)
    key = unquote(place.path).lstrip("/").partition("/")[2] or parse_qs(place.query).get("prefix", [""])[0]
    return bool(only) and not key.startswith(only) and place.query != "delete"  # whose keys are in its body


def told_tag(method: str, head: bytes) -> bytes:
    """Return the head of an answer with the ETag that the server of the settings would send."""
    how = SETTINGS.get("tags", {}).get(method)
    lines = head.split(b"\r\n")
    for i, line in enumerate(lines):
        name, _, tag = line.partition(b":")
        if how is None or name.lower() != b"etag":
            continue
        tag = tag.strip()
        lines[i] = {"weak": b"ETag: W/" + tag, "other": b'ETag: "other-' + tag[1:], "none": b"X-None: 1"}[how]
    return b"\r\n".join(lines)


def control(method: str, path: str, body: bytes) -> bytes:
    if method == "PUT":
        SETTINGS.clear()
        SETTINGS.update({"delay": 0.0, "faults": []}, **json.loads(body))
        LOG.clear()
        FLIGHT.clear()
        SIZES.clear()
        TIMES.clear()
    return json.dumps(
        {"/proxy/flight": FLIGHT, "/proxy/sizes": SIZES, "/proxy/times": TIMES}.get(path, LOG)
    ).encode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head, body = await read_message(reader)
            method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            if path in ("/proxy", "/proxy/flight", "/proxy/sizes", "/proxy/times"):
                out = control(method, path, body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(out) + out)
                continue
            LOG.append(f"{method} {path}")
            if SETTINGS["delay"]:
                begin = time.monotonic()
                WAITING.append(1)
                FLIGHT.append(len(WAITING))
                ARRIVED[0] = begin
                if "gather" in SETTINGS:
                    await gathered()
                else:
                    await asyncio.sleep(SETTINGS["delay"])
                WAITING.pop()
                TIMES.append((begin, time.monotonic()))
            fault = fault_for(method, path)
            action = "" if fault is None else str(fault["action"])
            if action == "reset":
                break
            if action.isdigit():
                assert fault is not None
                out = fault.get("body", "").encode()
                extra = "".join(f"{k}: {v}\r\n" for k, v in fault.get("headers", {}).items()).encode()
                writer.write(
                    b"HTTP/1.1 %s X\r\n%sContent-Length: %d\r\n\r\n" % (action.encode(), extra, len(out))
                )
                writer.write(b"" if method == "HEAD" else out)
                continue
            if code := refusal(method, path, head):
                out = b"" if method == "HEAD" else f"<Error><Code>{code}</Code></Error>".encode()
                writer.write(b"HTTP/1.1 403 X\r\nContent-Length: %d\r\n\r\n" % len(out) + out)
                continue
            changed = 403 if denied(path) else other_server(method, head)
            if isinstance(changed, int):
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % changed)
                continue
            head, body = await forward(changed, body, method)
            SIZES.append(len(body))
            if SETTINGS.get("hide_missing") and (b" 404 " in head[:13] or "list-type" in path):
                writer.write(b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n")
                continue
            head = told_tag(method, head)
            if action == "reset_after":
                break
            if action == "etag":
                at = head.lower().index(b"etag:")
                head = head[:at] + b'ETag: "wrong"' + head[head.index(b"\r\n", at) :]
            writer.write(head)
            if action == "truncate":
                writer.write(body[: len(body) // 2])
                await writer.drain()
                break
            if action == "slow":
                for i in range(10):
                    writer.write(body[len(body) * i // 10 : len(body) * (i + 1) // 10])
                    await asyncio.sleep(0.1)
            else:
                writer.write(body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=1000, limit=1 << 20)
    await server.serve_forever()


asyncio.run(main())
