"""Prices of requests, for the dry run of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.core.base.binding import JSON
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import parse_json

__all__ = ["PRICES", "Prices", "parse_prices", "price_json", "price_lines"]

_SHARD = 1000
_WORTH_SAYING = 1.0  # dollars


class Prices(NamedTuple):
    """US dollars per million requests; writing and listing cost the same."""

    get: float
    put: float
    what: str = ""  # the storage class, for list prices
    page: str = ""  # the provider's page with these prices
    read: str | None = None  # when that page, or a stored copy, was read; None if it couldn't be read

    def __str__(self) -> str:
        if self.read is None:
            return f"{self.what}, not confirmed: see {self.page}, or give yours with --prices"
        return f"{self.what}: {self.page}, read {self.read}"


# Other sources give the same prices for S3.  Azure's page of sample prices (2024-07-26) has 0.44 and 5.50,
# which it says are examples; other sources publish those below (2023).
PRICES: Mapping[str, Prices] = {
    "s3": Prices(0.40, 5.00, "S3 Standard in us-east-1", "https://aws.amazon.com/s3/pricing/"),
    "gcs": Prices(
        0.40,
        5.00,
        "Google Cloud Storage, Standard in one region",
        "https://cloud.google.com/storage/pricing-examples",
        "2026-11-24",
    ),
    "azure": Prices(
        0.50,
        6.50,
        "Azure Blob Storage, hot and locally redundant",
        "https://azure.microsoft.com/pricing/details/storage/blobs/",
    ),
}
"""List prices by the driver of the kvstore; an option of the command line replaces them."""


def parse_prices(text: str) -> Prices:
    """Return the prices that ``{"get": 0.4, "put": 5}`` or a file with it says; raise for anything else."""
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as e:
            raise InvalidArgumentError(
                f"prices: expected JSON or the name of a file with it, but received {text!r} ({e})"
            ) from None
    try:
        found = parse_json(text)
    except ValueError as e:
        raise InvalidArgumentError(f"prices: expected JSON, but received {text!r} ({e})") from None
    good = isinstance(found, dict) and set(found) == {"get", "put"}
    if not good or not all(isinstance(n, int | float) and n >= 0 for n in found.values()):
        raise InvalidArgumentError(
            'prices: expected {"get": ..., "put": ...}, US dollars for a million requests, '
            f"but received {text}"
        )
    return Prices(**found)


def price_lines(
    plan: CopyPlan, source: Prices | None, target: Prices | None, n_chunks: int | None
) -> Iterator[str]:
    """Yield the requests of a copy, and their prices where they are known.

    Parameters
    ----------
    plan : CopyPlan
    source, target : Prices or None
        None if requests cost nothing, or the price is unknown.
    n_chunks : int or None
        Chunks that are written one by one; None if they are in shards.
    """
    cost = price_json(plan, source, target)
    yield f"requests: about {cost['get']:,} to read and {cost['put']:,} to write, if everything is stored"
    if source is not None or target is not None:
        reading, writing = (_dollars(cost[name] or 0.0) for name in ("get_dollars", "put_dollars"))
        yield f"price of the requests: {reading} to read and {writing} to write"
        for prices in dict.fromkeys([source, target]):
            if prices is not None and prices.what:
                yield f"list prices of {prices}"
    if n_chunks is not None and target is not None and n_chunks * target.put / 1e6 >= _WORTH_SAYING:
        each, shards = (_dollars(n * target.put / 1e6) for n in (n_chunks, -(-n_chunks // _SHARD)))
        yield (
            f"{n_chunks:,} chunks that are objects of their own cost {each} to write; "
            f"in shards of {_SHARD:,} (--shard, zarr3) they cost {shards}"
        )


def price_json(plan: CopyPlan, source: Prices | None, target: Prices | None) -> dict[str, JSON]:
    """Return the numbers of requests and their prices, as JSON."""
    gets = [source, *[target] * (len(plan.passes) - 1)]
    known = [n * p.get / 1e6 for n, p in zip(plan.n_gets, gets, strict=True) if p is not None]
    return {
        "get": sum(plan.n_gets),
        "put": sum(plan.n_puts),
        "get_dollars": sum(known) if known else None,
        "put_dollars": None if target is None else sum(plan.n_puts) * target.put / 1e6,
        "list_prices": [str(p) for p in dict.fromkeys([source, target]) if p is not None and p.what],
    }


def _dollars(amount: float) -> str:
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:.2f}"
