"""Certificates of private authorities, from the variables that other tools read, for all servers.

Each of ``AWS_CA_BUNDLE``, ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``
names a file of certificates in PEM, or a directory of such files in OpenSSL's form.  All of them are trusted.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from chunkwise.core.base.fork import new_lock
from chunkwise.errors import StorageError

__all__ = ["ADVICE", "certificate_places", "trusted_by_obstore", "verifying_context"]

_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_OF_OPENSSL = ("SSL_CERT_FILE", "SSL_CERT_DIR")

ADVICE = (
    "its certificate is not trusted; if an authority of your own has signed it, set SSL_CERT_FILE to a file "
    "with that authority's certificate"
)

_lock = new_lock()


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


@contextmanager
def trusted_by_obstore() -> Iterator[None]:
    """Make an obstore store created in this block trust the same authorities."""
    # obstore reads OpenSSL's two variables when a store is made, and has no other option.
    places = certificate_places()
    own = [os.environ.get(name) for name in _OF_OPENSSL]
    if all(path in own for path in places):
        yield
        return
    files = [path for path in places if os.path.isfile(path)]
    directories = [path for path in places if os.path.isdir(path)]
    with _lock, tempfile.NamedTemporaryFile(suffix=".pem") as together:
        for path in files:
            with open(path, "rb") as file:
                together.write(file.read() + b"\n")
        together.flush()
        before = dict(zip(_OF_OPENSSL, own, strict=True))
        new = {
            "SSL_CERT_FILE": together.name if files else None,
            "SSL_CERT_DIR": os.pathsep.join(directories) or None,
        }
        try:
            _set(new)
            yield
        finally:
            _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
