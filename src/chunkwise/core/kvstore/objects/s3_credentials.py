"""Credentials for S3, by which requests are signed.

Requests are signed with version 4 of AWS's signatures, over the headers that S3 requires.

==============  ==================================================================================
type            source
==============  ==================================================================================
``default``     the first of: environment, profile, web identity, container (ECS), instance (IMDS)
``anonymous``   none; requests are not signed
``environment`` ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``
``profile``     the files of AWS's tools with their roles and single sign-on, read by boto3
``ecs``         the container's endpoint
``imds``        the instance's metadata service
==============  ==================================================================================

boto3 reads profiles.  AWS's tools use the first source that the environment names, so other types are refused
then.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from chunkwise.core.base.extras import needs
from chunkwise.core.kvstore.objects.key_source import (
    KeySource,
    Lease,
    answered_json,
    ask_service,
    post_form,
    read_secret,
)
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.web.connection import host_of
from chunkwise.core.kvstore.web.request import Answer
from chunkwise.errors import CredentialsError, UnsupportedError

__all__ = [
    "Credentials",
    "Keys",
    "aws_domain",
    "aws_quote",
    "find_credentials",
    "profile_endpoint",
    "provided_keys",
    "query_of",
    "signed_by_aws",
    "unread_profile",
]

_EMPTY = hashlib.sha256().hexdigest()


class Keys(NamedTuple):
    """An access key, its secret, and the token of the session, empty for lasting keys."""

    access_key: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Keys({self.access_key!r})"


def aws_domain(region: str) -> str:
    """Return the domain of the services in a region."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def aws_quote(text: str) -> str:
    """Return text quoted as signatures require it; "/" is kept."""
    return quote(text, safe="/-_.~")


def query_of(parameters: Sequence[tuple[str, str | None]]) -> str:
    """Return the query of a URL, in the order of the signature; None stands for a name without a value."""
    quoted = sorted((quote(k, safe="-_.~"), v if v is None else quote(v, safe="-_.~")) for k, v in parameters)
    return "&".join(name if value is None else f"{name}={value}" for name, value in quoted)


def signed_by_aws(
    method: str,
    url: str,
    headers: Sequence[tuple[str, str]],
    body: Buffer | None,
    keys: Keys,
    region: str,
) -> list[tuple[str, str]]:
    """Return the headers of a request with its signature; `url` is quoted by `aws_quote` and `query_of`."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = _EMPTY if not body else hashlib.sha256(body).hexdigest()
    own = [("x-amz-content-sha256", digest), ("x-amz-date", now)]
    if keys.token:
        own.append(("x-amz-security-token", keys.token))
    sent = [*headers, *own]
    signed = {"host": host_of(url)}
    signed.update((k.lower(), v.strip()) for k, v in sent if k.lower().startswith(("x-amz-", "content-md5")))
    names = ";".join(sorted(signed))
    parts = urlsplit(url)
    query = "&".join(part if "=" in part else f"{part}=" for part in parts.query.split("&") if part)
    canonical = "\n".join(
        (
            *(method, parts.path or "/", query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            *("", names, digest),
        )
    )
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.digest(_signing_key(keys.secret, now[:8], region), text.encode(), "sha256").hex()
    credential = f"Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return [*sent, ("Authorization", f"AWS4-HMAC-SHA256 {credential}")]


@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _environment_keys(refused: bool) -> Lease[Keys]:
    """Return the keys of the environment, which are looked at for each request."""
    get = os.environ.get
    access, secret = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        raise CredentialsError("No credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
    return Lease(Keys(access, secret, get("AWS_SESSION_TOKEN", "")), 0.0)


def provided_keys(found: Mapping[str, Any]) -> Keys:
    """Return the keys in what a function of the caller returns, with obstore's names."""
    return Keys(found["access_key_id"], found["secret_access_key"], found.get("token") or "")


def _container_keys(url: str, token_file: str) -> Lease[Keys]:
    """Return the keys of a container from its endpoint."""
    headers = [("Authorization", read_secret(token_file))] if token_file else []
    return _lease_of_json(ask_service("GET", url, headers))


def _instance_keys(service: str) -> Lease[Keys]:
    """Return the keys of the role of an instance, from its metadata service."""
    token = ask_service(
        "PUT", f"{service}/latest/api/token", [("X-aws-ec2-metadata-token-ttl-seconds", "600")]
    )
    headers = [("X-aws-ec2-metadata-token", _text(token).strip())]
    roles = f"{service}/latest/meta-data/iam/security-credentials/"
    role = _text(ask_service("GET", roles, headers)).split("\n")[0].strip()
    return _lease_of_json(ask_service("GET", roles + role, headers))


def _web_identity_keys(refused: bool) -> Lease[Keys]:
    """Return keys of a role for the token of a web identity."""
    get = os.environ.get
    region = get("AWS_REGION") or get("AWS_DEFAULT_REGION") or "us-east-1"
    service = get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{aws_domain(region)}"
    wanted = {
        "Action": "AssumeRoleWithWebIdentity",
        "DurationSeconds": "3600",
        "RoleArn": os.environ["AWS_ROLE_ARN"],
        "RoleSessionName": get("AWS_ROLE_SESSION_NAME") or "chunkwise",
        "Version": "2011-06-15",
        "WebIdentityToken": read_secret(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).strip(),
    }
    answer = post_form(service, wanted)
    try:
        root = ElementTree.fromstring(bytes(answer.body))
    except ElementTree.ParseError as e:
        raise CredentialsError(f"No credentials: {answer.url}: {e}") from e
    found = {item.tag.rpartition("}")[2]: item.text or "" for item in root.iter()}
    found["Token"] = found.get("SessionToken", "")
    return _lease_of(found, answer.url)


def _lease_of_json(answer: Answer) -> Lease[Keys]:
    return _lease_of(answered_json(answer), answer.url)


def _lease_of(found: dict[str, Any], url: str) -> Lease[Keys]:
    try:
        keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token") or "")
        if not all(isinstance(text, str) for text in keys):
            raise TypeError("a key is not text")
        until = found.get("Expiration")
        return Lease(keys, datetime.fromisoformat(until).timestamp() if until else None)
    except (KeyError, ValueError, TypeError, AttributeError) as e:
        raise CredentialsError(f"No credentials: {url}: the answer has no keys: {e!r}") from e


def _text(answer: Answer) -> str:
    return bytes(answer.body).decode("utf-8", "replace")


# In the order in which AWS's tools try them.
_VARIABLES = (
    ("environment", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
    ("web identity", ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")),
    ("ecs", ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",)),
    ("ecs", ("AWS_CONTAINER_CREDENTIALS_FULL_URI",)),
)
_CONTAINER = "http://169.254.170.2"
_INSTANCE = "http://169.254.169.254"
# botocore renews keys 10 minutes before they expire, so its keys are valid for longer than this.
_PROFILE_AGE = 300.0  # seconds


class Credentials(NamedTuple):
    """A source of keys."""

    source: KeySource[Keys]
    region: str = ""  # region that comes with the keys, or empty


def find_credentials(
    type: str, options: Mapping[str, str], *, ask_machine: bool = True
) -> Credentials | None:
    """Return the source of keys, None for unsigned requests; raise CredentialsError without any."""
    # ``default`` allows having no keys.  With `ask_machine` it also asks the instance's metadata service,
    # which takes a second if there is none.
    first, names = _first_in_environment()
    if type == "default":
        profile = _profile(options) if first != "environment" and _reads_profile(options) else None
        if profile is not None:
            return profile
        type = first or ("imds" if ask_machine and _machine_answers() else "anonymous")
    if type == "anonymous":
        return None
    if type == "profile":
        return _profile(options) or _missing(type, f"profile {_profile_name(options)!r} has no keys")
    if first and first != type:
        _missing(type, f"AWS's tools would use {' and '.join(names)}, which the environment has")
    if type == "environment" and not first:
        _missing(type, f"{' and '.join(_VARIABLES[0][1])} are not set")
    if type == "ecs":
        url, token = _container(options)
        return Credentials(KeySource(lambda _: _container_keys(url, token)))
    if type == "imds":
        return Credentials(KeySource(lambda _: _instance_keys(_metadata_service())))
    if type == "web identity":
        return Credentials(KeySource(_web_identity_keys))
    return Credentials(KeySource(_environment_keys))


def _missing(type: str, why: str) -> Any:
    raise CredentialsError(
        f'No AWS credentials of type "{type}": {why}; provide them, or set "aws_credentials" to another type'
    )


def _first_in_environment() -> tuple[str, tuple[str, ...]]:
    """Return the type of the first source in the environment, and the names of its variables."""
    return next((found for found in _VARIABLES if all(map(os.environ.get, found[1]))), ("", ()))


def _container(options: Mapping[str, str]) -> tuple[str, str]:
    """Return the URL of the keys, and the file of the token that it requires, or empty."""
    get = os.environ.get
    path, url = get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), options.get("endpoint")
    if path and url:
        _missing(
            "ecs", "AWS's tools would use AWS_CONTAINER_CREDENTIALS_RELATIVE_URI in place of the endpoint"
        )
    if path:
        return _CONTAINER + path, ""
    url = url or get("AWS_CONTAINER_CREDENTIALS_FULL_URI") or _missing("ecs", "no endpoint is set")
    token = options.get("auth_token_file") or get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    if token:
        try:
            with open(token, encoding="utf-8") as file:
                if not file.read().isprintable():  # not a valid header
                    _missing("ecs", f"the token in {token!r} has a line break or a control character")
        except (OSError, UnicodeDecodeError) as e:
            _missing("ecs", str(e))
    elif get("AWS_CONTAINER_AUTHORIZATION_TOKEN"):
        _missing("ecs", "AWS_CONTAINER_AUTHORIZATION_TOKEN is not supported; put the token into a file")
    return url, token or ""


def _metadata_service() -> str:
    return os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", _INSTANCE).rstrip("/")


def _machine_answers() -> bool:
    disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    return not disabled and _listens(_metadata_service())


@cache
def _listens(service: str) -> bool:
    """Return True if a service accepts connections; tried once, for a second."""
    parts = urlsplit(service)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), 1.0).close()
    except OSError:
        return False
    return True


def _profile_name(options: Mapping[str, str]) -> str:
    get = os.environ.get
    return options.get("profile") or get("AWS_PROFILE") or get("AWS_DEFAULT_PROFILE") or "default"


_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}


def _file(variable: str) -> str:
    return os.path.expanduser(os.environ.get(variable) or _FILES[variable])


def _files(options: Mapping[str, str]) -> tuple[str, str]:
    """Return the files of profiles: configuration and credentials."""
    config, credentials = map(_file, _FILES)
    return options.get("config_file", config), options.get("credentials_file", credentials)


def _has_profiles() -> bool:
    return any(map(os.path.exists, map(_file, _FILES)))


def _reads_profile(options: Mapping[str, str]) -> bool:
    """Return True if ``default`` reads a profile: one is named, or there are files and boto3."""
    return _profile_name(options) != "default" or (_has_profiles() and _has_boto3())


def _has_boto3() -> bool:
    return find_spec("boto3") is not None


def unread_profile() -> str:
    """Return the advice to install the reader of profile files, if there are such files."""
    return needs("the profile in AWS's files", "boto3") if _has_profiles() and not _has_boto3() else ""


def profile_endpoint(options: Mapping[str, str]) -> str:
    """Return the ``endpoint_url`` for S3 of the profile, or of its ``services``, or empty."""
    files = _files(options)
    return _endpoint_of(_profile_name(options), files[0], _stamps(files))


def _stamps(files: tuple[str, ...]) -> tuple[float, ...]:
    return tuple(os.path.getmtime(file) if os.path.exists(file) else 0.0 for file in files)


@cache
def _endpoint_of(profile: str, file: str, stamps: tuple[float, ...]) -> str:
    try:
        with open(file, encoding="utf-8") as text:
            if "endpoint_url" not in text.read():  # importing botocore takes a third of a second
                return ""
    except (OSError, UnicodeDecodeError):
        return ""
    try:
        from botocore.configprovider import ConfiguredEndpointProvider
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError as e:
        raise UnsupportedError(needs(f"endpoint_url in {file!r}", "boto3")) from e
    session = Session(profile=profile)
    session.set_config_variable("config_file", file)
    try:
        found = ConfiguredEndpointProvider(session.full_config, session.get_scoped_config(), "s3").provide()
    except BotoCoreError:  # a missing profile is reported when its keys are looked for
        return ""
    return str(found or "")


def _profile(options: Mapping[str, str]) -> Credentials | None:
    """Return the keys of a profile, None if it has none; raise if the named one is missing."""
    found, region = _of_profile(options)
    if found is None:
        return None

    def fetch(refused: bool) -> Lease[Keys]:
        nonlocal found
        if refused:  # the files may have others, and a process may give others
            found = _of_profile(options)[0]
        if found is None:
            raise CredentialsError(f"No credentials: profile {_profile_name(options)!r} has no keys any more")
        keys = found.get_frozen_credentials()
        return Lease(Keys(keys.access_key, keys.secret_key, keys.token or ""), time.time() + _PROFILE_AGE)

    return Credentials(KeySource(fetch), region)


def _of_profile(options: Mapping[str, str]) -> tuple[Any, str]:
    """Return botocore's credentials of a profile, None if it has none, and its region."""
    name = _profile_name(options)
    try:
        if not _has_boto3():
            raise ImportError
        from botocore.exceptions import BotoCoreError, ProfileNotFound
        from botocore.session import Session
    except ImportError as e:
        raise UnsupportedError(needs(f'the AWS profile "{name}"', "boto3")) from e
    session = Session(profile=name)
    for option in ("config_file", "credentials_file"):
        if option in options:
            session.set_config_variable(option, options[option])
    try:
        sources = session.get_component("credential_provider")
        for source in ("env", "boto-config", "container-role", "iam-role"):  # they are not profiles
            sources.remove(source)
        found = session.get_credentials()
        if found is not None:
            found.get_frozen_credentials()  # runs the process, or asks for a role
        return found, session.get_config_variable("region") or ""
    except ProfileNotFound as e:
        if name == "default":
            return None, ""
        raise CredentialsError(
            f'there is no AWS profile "{name}" in {" and ".join(_files(options))}; it is named by '
            f"{'the spec' if options.get('profile') else 'AWS_PROFILE'}"
        ) from e
    except BotoCoreError as e:
        raise CredentialsError(f'No AWS credentials of profile "{name}": {e}') from e
