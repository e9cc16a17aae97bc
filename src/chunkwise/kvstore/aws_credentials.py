"""Credentials for S3, from where TensorStore's resource ``aws_credentials`` says.

==============  ==================================================================================
type            where from
==============  ==================================================================================
``default``     the first of: environment, profile, web identity, container (ECS), instance (IMDS)
``anonymous``   none; requests are not signed
``environment`` ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``
``profile``     the files of AWS's tools; roles and single sign-on if botocore is installed
``ecs``         the container's endpoint
``imds``        the instance's metadata service
==============  ==================================================================================

Nothing that was found is kept in a description of a bucket, and so none is in a pickle.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from chunkwise.errors import CredentialsError
from chunkwise.extras import needs
from chunkwise.kvstore.aws_profile import profile_values

__all__ = ["Keys", "Provider", "find_provider"]

_METADATA_TIMEOUT = 1.0
_OTHERWISE = '; provide them, or set "aws_credentials" to another type'
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Keys(NamedTuple):
    """An access key.

    Attributes
    ----------
    access_key_id, secret_access_key : str
    token : str or None
        Of a temporary key.
    expires_at : datetime or None
        When a new one must be asked for.
    """

    access_key_id: str
    secret_access_key: str
    token: str | None = None
    expires_at: datetime | None = None

    def __repr__(self) -> str:
        return f"Keys({self.access_key_id[:4]}...)"


Provider: TypeAlias = Callable[[], Mapping[str, Any]]
"""What gives keys that are valid now, with the names of :class:`Keys`."""


def find_provider(type: str, options: Mapping[str, str], *, ask_machine: bool = True) -> Provider | None:
    """Return where keys come from, None if requests are to be made without.

    Parameters
    ----------
    type : str
    options : mapping
        What goes with the type.
    ask_machine : bool
        Whether ``default`` asks the instance's metadata service too, which takes a second where there
        is none.

    Raises
    ------
    CredentialsError
        If there are no keys where `type` says they should be; ``default`` is content without.
    """
    match type:
        case "anonymous":
            return None
        case "environment":
            return _constant(
                _environment() or _missing(type, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
            )
        case "profile":
            return _profile(options) or _missing(
                type, f"profile {options.get('profile', 'default')!r} has no keys"
            )
        case "ecs":
            return _Fetched("ecs", dict(options))
        case "imds":
            return _Fetched("imds", {})
    found = _environment()
    if found is not None:
        return _constant(found)
    provider = _profile(options)
    if provider is not None:
        return provider
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and os.environ.get("AWS_ROLE_ARN"):
        return _botocore(None) or _missing(type, needs("a web identity", "botocore"))
    if _container_url({}):
        return _Fetched("ecs", {})
    return _Fetched("imds", {}) if ask_machine and instance_has_keys() else None


def _missing(type: str, why: str) -> Any:
    raise CredentialsError(f'No AWS credentials of type "{type}": {why}{_OTHERWISE}')


def _constant(keys: Keys) -> Provider:
    return keys._asdict


def _environment() -> Keys | None:
    get = os.environ.get
    key, secret = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
    return Keys(key, secret, get("AWS_SESSION_TOKEN") or None) if key and secret else None


def _profile(options: Mapping[str, str]) -> Provider | None:
    values = profile_values(
        options.get("profile"), options.get("config_file"), options.get("credentials_file")
    )
    key, secret = values.get("aws_access_key_id"), values.get("aws_secret_access_key")
    if key and secret:
        return _constant(Keys(key, secret, values.get("aws_session_token")))
    if any(name in values for name in ("role_arn", "sso_session", "sso_start_url", "credential_process")):
        return _botocore(options.get("profile")) or _missing(
            "profile", needs("its role, single sign-on or process", "botocore")
        )
    return None


def _botocore(profile: str | None) -> Provider | None:
    try:
        from botocore.session import Session  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    credentials = Session(profile=profile).get_credentials()
    if credentials is None:
        return None

    def frozen() -> Mapping[str, Any]:
        keys = credentials.get_frozen_credentials()
        expires = getattr(credentials, "_expiry_time", None)
        return Keys(keys.access_key, keys.secret_key, keys.token, expires)._asdict()

    return frozen


class _Fetched:
    """Keys from the metadata service of a container or an instance, asked for whenever they expire."""

    def __init__(self, source: str, options: Mapping[str, str]) -> None:
        self.source = source
        self.options = options

    def __call__(self) -> Mapping[str, Any]:
        try:
            found = _from_container(self.options) if self.source == "ecs" else _from_instance()
            expires = found.get("Expiration")
            return Keys(
                found["AccessKeyId"],
                found["SecretAccessKey"],
                found.get("Token"),
                datetime.fromisoformat(expires) if expires else None,
            )._asdict()
        except (OSError, KeyError, ValueError) as e:
            raise CredentialsError(f'No AWS credentials of type "{self.source}": {e}{_OTHERWISE}') from e


def _get(url: str, headers: Mapping[str, str], method: str = "GET") -> bytes:
    request = urllib.request.Request(url, headers=dict(headers), method=method)
    with _DIRECT.open(request, timeout=_METADATA_TIMEOUT) as answer:
        body: bytes = answer.read()
        return body


def _container_url(options: Mapping[str, str]) -> str:
    relative = os.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    return (
        options.get("endpoint")
        or (f"http://169.254.170.2{relative}" if relative else "")
        or os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
    )


def _from_container(options: Mapping[str, str]) -> dict[str, Any]:
    url = _container_url(options)
    if not url:
        raise ValueError("no container endpoint is set")
    token = os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    path = options.get("auth_token_file") or os.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if path:
        with open(path, encoding="utf-8") as file:
            token = file.read().strip()
    found: dict[str, Any] = json.loads(_get(url, {"Authorization": token} if token else {}))
    return found


def _metadata_service() -> str:
    return os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")


def _session() -> dict[str, str]:
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
    token = _get(f"{_metadata_service()}/latest/api/token", headers, "PUT").decode()
    return {"X-aws-ec2-metadata-token": token}


def _from_instance() -> dict[str, Any]:
    base = f"{_metadata_service()}/latest/meta-data/iam/security-credentials/"
    session = _session()
    role = _get(base, session).decode().split()[0]
    found: dict[str, Any] = json.loads(_get(base + role, session))
    return found


def instance_has_keys() -> bool:
    """Whether this machine has a metadata service; asked once, and given a second to answer."""
    disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return not disabled and _answers(_metadata_service())


@cache
def _answers(service: str) -> bool:
    try:
        return bool(_session())
    except (OSError, ValueError):
        return False
