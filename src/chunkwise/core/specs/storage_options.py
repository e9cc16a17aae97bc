"""``storage_options``, as written for fsspec, converted to members of specs.

=====================================================  ==================================================
option                                                 member
=====================================================  ==================================================
``anon``, ``token="anon"``                             ``aws_credentials`` of type ``anonymous``
``endpoint_url``, in ``client_kwargs`` too             ``endpoint``
``region_name`` in ``client_kwargs``                   ``aws_region``
``profile``                                            ``aws_credentials`` of type ``profile``
``requester_pays``                                     ``requester_pays``
``account_name``                                       ``account_name``
``headers``, in ``client_kwargs`` too                  ``headers``
=====================================================  ==================================================

Options for a chain, such as ``simplecache::s3://...``, may be given by protocol: ``{"s3": {"anon": True}}``.
Secrets are not allowed in specs, which are shown and stored; they come from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.specs.url import is_url, spec_json_from_url
from chunkwise.errors import InvalidArgumentError, hint

__all__ = ["each_with_storage_options", "url_with_storage_options", "with_storage_options"]

_SECRETS = {
    "s3": (
        ("key", "secret", "token", "username", "password"),
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN",
    ),
    "gcs": (("token",), "GOOGLE_APPLICATION_CREDENTIALS"),
    "azure": (
        ("account_key", "sas_token", "connection_string", "credential", "client_secret"),
        "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING",
    ),
    "http": (("auth",), "a user in the URL"),
}


def with_storage_options(place: Any, options: Mapping[str, Any] | None) -> Any:
    """Return the spec of a kvstore for a URL and options; `place` itself without options.

    Raises
    ------
    InvalidArgumentError
        For an option that is meaningless for the URL, or is a secret, and for a location that is not a URL.

    Examples
    --------
    >>> with_storage_options("s3://bucket/a.zarr", {"anon": True})["kvstore"]["aws_credentials"]
    {'type': 'anonymous'}
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidArgumentError(f"storage_options: expected a dict, not {type(options).__name__}")
    given = _said(options or {})
    if not given:
        return place
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
    if text is None or not is_url(text):
        raise InvalidArgumentError(
            f"storage_options {sorted(given)}: they go with a URL, not with {text or type(place).__name__}"
        )
    spec = spec_json_from_url(text)
    kvstore: JSON = dict(spec.get("kvstore", spec))
    if kvstore.get("path") and not kvstore["path"].endswith("/"):
        kvstore["path"] += "/"
    root = kvstore
    while isinstance(root.get("base"), Mapping):  # for an archive, the store that contains it
        root["base"] = dict(root["base"])
        root = root["base"]
    members = _members(str(root.get("driver")), _said(_of_protocol(text, given)))
    if not members:
        return place
    root.update(members)
    return {**spec, "kvstore": kvstore} if "kvstore" in spec else kvstore


def each_with_storage_options(options: Mapping[str, Any] | None, *places: Any) -> list[Any]:
    """Return the places, with the options for those on servers; raise if there is none for the options.

    >>> local, remote = each_with_storage_options({"anon": True}, "a.zarr", "s3://bucket/a.zarr")
    >>> local, remote["kvstore"]["driver"]
    ('a.zarr', 's3')
    """
    takes = [_is_on_server(place) for place in places]
    if not any(takes):
        return [with_storage_options(places[0], options), *places[1:]]
    return [
        with_storage_options(place, options) if takes_them else place
        for place, takes_them in zip(places, takes, strict=True)
    ]


def url_with_storage_options(place: Any, options: Mapping[str, Any] | None) -> Any:
    """Return a URL with its options; None for other places, which have none."""
    found = with_storage_options(place, options)
    return found if isinstance(place, str) and is_url(place) else None


def _is_on_server(place: Any) -> bool:
    text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
    if not isinstance(text, str) or not is_url(text):
        return False
    spec = spec_json_from_url(text)
    root: JSON = spec.get("kvstore", spec)
    while isinstance(root.get("base"), Mapping):
        root = root["base"]
    return root.get("driver") in _SECRETS


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those that ask for nothing."""
    off = ("anon", "requester_pays")
    return {
        name: value
        for name, value in options.items()
        if not (value is None or value == {} or (value is False and name in off))
    }


def _of_protocol(text: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of the store that a URL ends with; they may be given by protocol."""
    named = [name for name, value in given.items() if isinstance(value, Mapping) and name in _PROTOCOLS]
    if not named:
        return given
    *before, last = (part.partition("://")[0] for part in text.split("|")[0].split("::"))
    for name in given:
        if name not in named or name not in (*before, last):
            parts = " and ".join([*before, last])
            raise InvalidArgumentError(f"storage_options: {dump(name)} is not part of the URL; {parts} are")
        if name != last:
            raise InvalidArgumentError(f"storage_options: {name} takes none; give those of {last} only")
    found: Mapping[str, Any] = given[last]
    return found


def _members(driver: str, given: Mapping[str, Any]) -> dict[str, JSON]:
    secrets, instead = _SECRETS.get(driver, ((), ""))
    client = given.get("client_kwargs", {})
    flat = {name: value for name, value in given.items() if name != "client_kwargs"}
    flat.update(client if isinstance(client, Mapping) else {})
    known = ["anon", *_KNOWN.get(driver, {})]
    out: dict[str, JSON] = {}
    for name, value in flat.items():
        if name in secrets and not (name == "token" and value == "anon"):
            raise InvalidArgumentError(
                f"storage_options: {dump(name)} is a secret, which specs must not contain; set {instead}"
            )
        if name == "anon" or (name == "token" and value == "anon"):
            out |= {"aws_credentials": {"type": "anonymous"}} if driver == "s3" else {}
        elif name == "profile" and driver == "s3":
            out["aws_credentials"] = {"type": "profile", "profile": value}
        elif name == "headers" and driver == "http":
            out["headers"] = [f"{key}: {text}" for key, text in dict(value).items()]
        elif name in _KNOWN.get(driver, {}):
            out[_KNOWN[driver][name]] = value
        else:
            raise InvalidArgumentError(
                f"storage_options: {dump(name)} is not known for {driver}; {hint(name, known)}"
            )
    return out


_PROTOCOLS = (
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "adl",
    "http",
    "https",
    "file",
    "memory",
    "zip",
    "reference",
    "simplecache",
    "filecache",
    "blockcache",
)
"""Names that fsspec has for parts of a URL."""

_KNOWN: dict[str, dict[str, str]] = {
    "s3": {
        "endpoint_url": "endpoint",
        "region_name": "aws_region",
        "requester_pays": "requester_pays",
        "profile": "aws_credentials",
    },
    "azure": {"account_name": "account_name"},
    "http": {"headers": "headers"},
    "gcs": {"token": ""},
}
"""Options of each driver, and the members that they set."""
