"""Tables of what each format supports, made from the catalogue and by creating an array of each type."""

from __future__ import annotations

import chunkwise
from chunkwise.core.base import catalogue
from chunkwise.core.dtypes.data_type import dtypes

DRIVERS = {"Zarr v3": "zarr3", "Zarr v2": "zarr2", "N5": "n5"}


def codecs() -> str:
    """Return the names of every codec in each format."""
    lines = ["| codec | Zarr v3 | Zarr v2 and v1 | N5 |", "|---|---|---|---|"]
    for name, entry in sorted(catalogue.CODECS.items()):
        columns = (", ".join(f"`{n}`" for n in entry.names.get(f, ())) for f in ("zarr3", "zarr2", "n5"))
        lines.append(f"| `{name}` | " + " | ".join(columns) + " |")
    return "\n".join(lines)


def types() -> str:
    """Return which data types an array of each format can have."""
    lines = ["| data type | " + " | ".join(DRIVERS) + " |", "|---" * (1 + len(DRIVERS)) + "|"]
    for name in (*dtypes, *catalogue.DATA_TYPES):
        columns = ("yes" if takes(driver, name) else "" for driver in DRIVERS.values())
        lines.append(f"| `{name}` | " + " | ".join(columns) + " |")
    return "\n".join(lines)


def takes(driver: str, dtype: str) -> bool:
    """Return whether an array of a format can be made with a data type."""
    spec = {"driver": driver, "kvstore": "memory://support/"}
    try:
        chunkwise.open(spec, create=True, dtype=dtype, shape=[2]).result()
    except (ValueError, NotImplementedError):
        return False
    return True


def names(table: str) -> str:
    """Return the names in a table of the catalogue."""
    return ", ".join(f"`{name}`" for name in getattr(catalogue, table))


def page() -> str:
    """Return the page of everything in the catalogue."""
    parts = ["# What is supported", "These tables are the catalogue of the code."]
    parts += ["## Codecs", codecs(), "## Data types", types()]
    own = "`S<n>`, `U<n>`, `V<n>`, `datetime64[unit]`, `timedelta64[unit]`"
    parts.append(f"Zarr v2 and v3 also have NumPy's {own} and structured types.")
    for title, table in (
        ("Chunk grids", "GRIDS"),
        ("Chunk key encodings", "KEY_ENCODINGS"),
        ("Array drivers", "DRIVERS"),
        ("Key-value stores", "KVSTORES"),
        ("Context resources", "CONTEXT_RESOURCES"),
    ):
        parts += [f"## {title}", names(table)]
    return "\n\n".join(parts) + "\n"


TABLES = {"codecs": codecs, "types": types}
