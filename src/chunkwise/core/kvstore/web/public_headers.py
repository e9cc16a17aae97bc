"""Request headers that are known to contain no credential; any other header may.

Other headers are never sent to a different server, and never stored in a pickle or a spec.
"""

from __future__ import annotations

__all__ = ["is_public_header"]

_PUBLIC = frozenset(
    (
        *("accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "pragma"),
        *("if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range", "user-agent"),
    )
)


def is_public_header(name: str) -> bool:
    """Return True for a header that is known to contain no credential."""
    return name.lower() in _PUBLIC
