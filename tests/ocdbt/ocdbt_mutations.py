"""Changes of manifests and nodes that have the checksum of what they hold then."""

from __future__ import annotations

import random

from chunkwise.core.kvstore.ocdbt.fields import make_frame

MANIFEST = 0x0CDB3A2A


def frames(raw: bytes) -> list[tuple[int, int]]:
    """Return where manifests and nodes begin and end."""
    out, at = [], 0
    while (at := raw.find(b"\x0c\xdb", at)) >= 0:
        size = int.from_bytes(raw[at + 4 : at + 12], "little")
        if raw[at + 2 : at + 4] in (b"\x3a\x2a", b"\x20\xde", b"\x12\x34") and at + size <= len(raw):
            out.append((at, at + size))
        at += 2
    return out


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """Change bytes of one frame, which has the checksum of what it holds then."""
    start, stop = rng.choice(frames(raw))
    body = bytearray(raw[start + 14 : stop - 4])
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(body)) if rng.random() < 0.5 else rng.randrange(min(24, len(body)))
        word = rng.choice(
            (bytes((body[at] ^ 1 << rng.randrange(8),)), b"\xff" * 9 + b"\1", b"\xff\x7f", b"\0")
        )
        body[at : at + len(word)] = word[: len(body) - at]
    if start == 0 and raw.startswith(MANIFEST.to_bytes(4, "big")) and rng.random() < 0.3:
        del body[rng.randrange(len(body)) :]
    frame = make_frame(bytes(body), int.from_bytes(raw[start : start + 4], "big"), None)
    return raw[:start] + frame + raw[stop:]
