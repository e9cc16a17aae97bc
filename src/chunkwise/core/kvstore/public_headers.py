"""Headers of requests that are known to hold no credential; any other may, whatever it is called.

No other header goes to another server than the one that it was given for, nor into a pickle or a spec.
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
    """Return True for a header that is known to hold no credential."""
    return name.lower() in _PUBLIC
