"""Certificates of private authorities, from the variables that other tools read, for all servers.

Each of ``AWS_CA_BUNDLE``, ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``
names a file of certificates in PEM, or a directory of such files in OpenSSL's form.  All of them are trusted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chunkwise.errors import StorageError

if TYPE_CHECKING:
    import ssl

__all__ = ["certificate_advice", "certificate_places", "verifying_context"]

_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_OF_OPENSSL = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def certificate_places() -> tuple[str, ...]:
    """Return the files and directories that the environment names; empty for the system's own."""
    found: dict[str, None] = {}
    for name in _VARIABLES:
        path = os.environ.get(name)
        if path and not os.path.exists(path) and name not in _OF_OPENSSL:  # OpenSSL treats it as empty
            raise StorageError(f"{name} names {path!r} as certificate file, which does not exist")
        if path:
            found[path] = None
    return tuple(found)


def verifying_context(places: tuple[str, ...]) -> ssl.SSLContext:
    """Return a context that trusts the authorities in files and directories too."""
    import ssl  # only servers need it

    context = ssl.create_default_context()  # it already trusts those from OpenSSL's variables
    for path in places:
        if path in map(os.environ.get, _OF_OPENSSL):
            continue
        try:
            if os.path.isdir(path):
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as e:
            raise StorageError(f"{path!r} has no certificates that can be read: {e}") from e
    return context


def certificate_advice() -> str:
    """Return the advice for a certificate that isn't trusted."""
    named = [name for name in _VARIABLES if os.environ.get(name)]
    if named:
        return (
            f"its certificate is not trusted; {' and '.join(named)} must have the certificate "
            "of the authority that signed it, and that one must name this host"
        )
    return (
        "its certificate is not trusted; if an authority of your own has signed it, set SSL_CERT_FILE to a "
        "file with that authority's certificate"
    )
