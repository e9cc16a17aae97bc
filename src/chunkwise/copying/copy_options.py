"""``CopyOptions``: how a copy is made, one record from the command line and the functions down to the work.

Properties in which the copy differs from its source are fields of an `ArrayTemplate`.  A field with a flag is
also an option of ``chunkwise cp``: an option is added here, and where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from chunkwise.copying.journal import Part
from chunkwise.copying.narrowing import CASTS, Cast
from chunkwise.core.base.arguments import check_choice, check_flag
from chunkwise.errors import OptionError

__all__ = ["CopyOptions", "flags_of_copies"]


def _flag(default: Any, flag: str, help: str, **how: Any) -> Any:
    """Return a field with a flag: a switch, unless `how`, for `ArgumentParser.add_argument`, says else."""
    how = how or {"action": "store_false" if default else "store_true"}
    return field(default=default, metadata={"flag": flag, "help": help, **how})


@dataclass(frozen=True, kw_only=True)
class CopyOptions:
    """Options of a copy of an array, a tree or an image."""

    memory: int | None = None  # of a worker process; by default a share of the machine's
    part: Part | None = None  # of a copy that several processes make; by default all of it
    strict: bool = _flag(
        False, "--strict", "with -r, fail if the format can't hold an array, instead of leaving it out"
    )
    cast: Cast = _flag(
        "error",
        "--cast",
        "what to do with values that --dtype can't hold: raise an error (the default), take the nearest "
        "value, wrap integers around, or scale all values to its range",
        choices=CASTS,
    )
    verify: bool = _flag(False, "--verify", "read everything again and compare")
    resume: bool = _flag(False, "--resume", "continue an interrupted copy, if there is one")
    overwrite: bool = _flag(False, "--overwrite", "replace what is there, once the copy is complete")
    sync: bool = _flag(
        True,
        "--no-sync",
        "don't wait for the disk: faster, but after a power failure parts of the copy may be missing",
    )
    keep_fingerprint: bool = _flag(
        False,
        "--keep-fingerprint",
        "keep a fingerprint of the elements as an attribute, with which `chunkwise verify` also finds chunks "
        "that are missing or were swapped",
    )

    def __post_init__(self) -> None:
        check_choice(self.cast, "cast", CASTS)
        for name in ("strict", "verify", "resume", "overwrite", "sync", "keep_fingerprint"):
            check_flag(getattr(self, name), name)

    def check_cast(self, options: Mapping[str, Any]) -> None:
        """Raise if the options of arrays have no data type that values are to be cast to."""
        if self.cast != "error" and options.get("dtype") is None:
            raise OptionError(f'cast: "{self.cast}" goes with a dtype')

    @property
    def go_on(self) -> bool:
        """True if an unfinished copy is continued."""
        return self.resume or self.part is not None


def flags_of_copies() -> Iterator[Field[Any]]:
    """Yield the fields that have a flag."""
    return (one for one in fields(CopyOptions) if "flag" in one.metadata)
