"""Timeouts and retries of commands, and messages about servers that are waited for."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from chunkwise.cli.command import UsageError, add_json, message
from chunkwise.errors import SpecError
from chunkwise.extension import JSON
from chunkwise.extension.inside import default_resources

__all__ = ["add_action_arguments", "add_server_arguments", "with_servers"]

_PROTOCOLS = ("s3", "gcs", "azure", "http")
_LOGGER = "chunkwise.retries"
_BETWEEN_MESSAGES = 1.0  # seconds: many requests that are under way fail together


def add_server_arguments(parser: argparse.ArgumentParser, default: object = None) -> None:
    """Declare the options that every command has."""
    parser.add_argument(
        "--retries",
        metavar="N",
        type=int,
        default=default,
        help="how often a request that failed temporarily is repeated (by default 32)",
    )
    parser.add_argument(
        "--request-timeout",
        metavar="TIME",
        default=default,
        help="how long a server may be silent, such as 10s (by default 60s)",
    )


def add_action_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command for an action too, after which they may stand."""
    add_json(parser, argparse.SUPPRESS)
    add_server_arguments(parser, argparse.SUPPRESS)


@contextmanager
def with_servers(arguments: argparse.Namespace) -> Iterator[None]:
    """Apply the options on timeouts and retries to all stores, and report retries on stderr."""
    retries: dict[str, JSON] = {}
    if arguments.retries is not None:
        if arguments.retries < 0:
            raise UsageError(f"--retries: expected 0 or more, but received {arguments.retries}")
        retries["max_retries"] = arguments.retries
    if arguments.request_timeout is not None:
        text = arguments.request_timeout
        retries["request_timeout"] = f"{text}s" if text.replace(".", "", 1).isdecimal() else text
    try:
        resources = default_resources({f"{p}_request_retries": retries for p in _PROTOCOLS if retries})
    except SpecError as e:
        raise UsageError(f"--request-timeout: {e.message}") from None
    with resources, _retries_reported():
        yield


@contextmanager
def _retries_reported() -> Iterator[None]:
    logger, handler = logging.getLogger(_LOGGER), _Messages()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Messages(logging.Handler):
    last = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self.last >= _BETWEEN_MESSAGES:
            self.last = now
            message(record.getMessage())
