"""Keys for AWS in the files that its tools keep: ``~/.aws/credentials`` and ``~/.aws/config``."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping

__all__ = ["profile_values"]


def profile_values(
    profile: str | None = None, config_file: str | None = None, credentials_file: str | None = None
) -> dict[str, str]:
    """Return what the files say of a profile, those of the credentials file first; empty if nothing.

    Parameters
    ----------
    profile : str, optional
        By default that of ``AWS_PROFILE``, or ``default``.
    config_file, credentials_file : str, optional
        By default those of ``AWS_CONFIG_FILE`` and ``AWS_SHARED_CREDENTIALS_FILE``, or those in ``~/.aws``.
    """
    name = profile or os.environ.get("AWS_PROFILE") or "default"
    config = config_file or os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config"
    credentials = credentials_file or os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    out = dict(_section(config, name if name == "default" else f"profile {name}"))
    out.update(_section(credentials, name))
    return out


def _section(path: str, name: str) -> Mapping[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    return parser[name] if parser.has_section(name) else {}
