"""Metrics and verbose logging, with TensorStore's experimental functions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from chunkwise.core.base.arguments import as_text, is_text
from chunkwise.core.base.threads import counter_values
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import n_threads
from chunkwise.core.engine.unasked import in_background
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "experimental_collect_matching_metrics",
    "experimental_collect_prometheus_format_metrics",
    "experimental_push_metrics_to_prometheus",
    "experimental_update_verbose_logging",
    "parse_tensorstore_flags",
]

_VERBOSE_FLAG = "tensorstore_verbose_logging"
_TIMEOUT = 60.0  # seconds to wait for the push gateway


def _values() -> dict[str, int]:
    return {**counter_values(), "/tensorstore/thread_pool/started": n_threads()}


def _collect(prefix: str = "", include_zero: bool = False) -> list[dict[str, Any]]:
    """Return name and value of each metric whose name begins with `prefix`, sorted by name."""
    return [
        {"name": name, "values": [{"value": value}]}
        for name, value in sorted(_values().items())
        if name.startswith(prefix) and (value or include_zero)
    ]


def _prometheus_lines(prefix: str = "") -> list[str]:
    """Return the same in the text format of Prometheus, one metric per line."""
    return [
        f"{metric['name'].strip('/').replace('/', '_')} {metric['values'][0]['value']}"
        for metric in _collect(prefix)
    ]


def experimental_collect_matching_metrics(
    metric_prefix: str = "", include_zero_metrics: bool = False
) -> list[dict[str, Any]]:
    """Return the metrics whose names begin with a prefix.

    Parameters
    ----------
    metric_prefix : str
        Names look like ``/tensorstore/cache/chunk_cache/reads``.
    include_zero_metrics : bool
        Also return metrics that were never counted.

    Returns
    -------
    list of dict
        One object for each metric, with its ``name`` and ``values``.

    Examples
    --------
    >>> import chunkwise
    >>> metrics = chunkwise.experimental_collect_matching_metrics("/chunkwise/")
    >>> all(metric["name"].startswith("/chunkwise/") for metric in metrics)
    True
    """
    return _collect(as_text(metric_prefix, "metric_prefix"), bool(include_zero_metrics))


def experimental_collect_prometheus_format_metrics(metric_prefix: str = "") -> list[str]:
    """Return the metrics whose names begin with a prefix, as lines of Prometheus' text format.

    Parameters
    ----------
    metric_prefix : str
        As for `experimental_collect_matching_metrics`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import chunkwise
    >>> isinstance(chunkwise.experimental_collect_prometheus_format_metrics("/chunkwise/"), list)
    True
    """
    return _prometheus_lines(as_text(metric_prefix, "metric_prefix"))


def experimental_push_metrics_to_prometheus(
    pushgateway: str = "", job: str = "", instance: str = "", metric_prefix: str = ""
) -> Future[int]:
    """Send metrics to a push gateway of Prometheus.

    Parameters
    ----------
    pushgateway : str
        Its URL.
    job, instance : str
        Labels that group the metrics; `job` is required.
    metric_prefix : str
        Metrics to send.

    Returns
    -------
    Future of int
        Status code of the response.

    Raises
    ------
    ValueError
        If there is no `job`, or `pushgateway` is not an HTTP URL.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.experimental_push_metrics_to_prometheus("http://localhost:9091")
    Traceback (most recent call last):
        ...
    chunkwise.errors.InvalidArgumentError: PushGatewayConfig bad job
    """
    if not job:
        raise InvalidArgumentError("PushGatewayConfig bad job")
    if urlsplit(pushgateway).scheme not in ("http", "https"):
        raise InvalidArgumentError(f"PushGatewayConfig bad host: {pushgateway!r} is no URL of HTTP")
    url = f"{pushgateway.rstrip('/')}/metrics/job/{quote(job, safe='')}"
    if instance:
        url += f"/instance/{quote(instance, safe='')}"
    body = "".join(f"{line}\n" for line in _prometheus_lines(metric_prefix)).encode()
    return in_background(lambda: _push(url, body))


def _push(url: str, body: bytes) -> int:
    from urllib.request import Request, urlopen  # slow to import

    request = Request(url, body, {"Content-Type": "text/plain; version=0.0.4"}, method="PUT")
    with urlopen(request, timeout=_TIMEOUT) as response:
        return int(response.status)


def experimental_update_verbose_logging(flags: str = "", overwrite: bool = False) -> None:
    """Set which loggers are verbose.

    Parameters
    ----------
    flags : str
        Names separated by commas, each perhaps with a level: ``"http,s3=1"``.  ``all`` means every logger;
        level 0, or -1, is the normal one.  A name is a logger's below ``chunkwise``.
    overwrite : bool
        Reset all other loggers to normal.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.experimental_update_verbose_logging("file=1")
    """
    if overwrite:
        for name in [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "chunkwise"]:
            logging.getLogger(name).setLevel(logging.NOTSET)
    for flag in filter(None, as_text(flags, "flags").replace(" ", "").split(",")):
        name, _, level = flag.partition("=")
        verbose = level not in ("0", "-1")
        logger = logging.getLogger("chunkwise" if name == "all" else f"chunkwise.{name}")
        logger.setLevel(logging.DEBUG if verbose else logging.NOTSET)


def parse_tensorstore_flags(argv: Sequence[str]) -> None:
    """Read TensorStore's flags from a command line.

    Parameters
    ----------
    argv : sequence of str
        The value of ``--tensorstore_verbose_logging=...`` is passed to `experimental_update_verbose_logging`;
        everything else is ignored.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.parse_tensorstore_flags(["program", "--tensorstore_verbose_logging=file"])
    """
    if is_text(argv) or not isinstance(argv, Sequence):
        raise TypeError(f"argv must be a sequence of strings, not {argv!r}")
    for argument in [as_text(x, "argument") for x in argv]:
        name, equals, value = argument.lstrip("-").partition("=")
        if equals and argument.startswith("-") and name == _VERBOSE_FLAG:
            experimental_update_verbose_logging(value)
