"""Changing several keys of a store at once: what a store that can do it offers, and how others differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import Buffer, offers
from chunkwise.core.kvstore.traits import traits_of

__all__ = [
    "AtomicWritable",
    "Directories",
    "KeysChecked",
    "Modifiable",
    "Modification",
    "RangeCopies",
    "Reference",
    "ReferenceWritable",
    "answers_at_once",
]

Modification: TypeAlias = "Callable[[Buffer | None], Buffer | None]"
"""From the value that a key has to the one that it is to have; None is a missing key.

It may be called several times, with different values, and must not keep its argument.
"""


class AtomicWritable(Protocol):
    """A store that can change several keys so that everybody sees all of it or nothing."""

    def write_all(
        self,
        values: Mapping[str, Buffer | None],
        *,
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange] = (),
    ) -> str | None:
        """Delete the keys in `deleted`, then write `values`, if all `conditions` hold.

        Parameters
        ----------
        values : mapping of str to bytes-like or None
            None deletes the key.
        conditions : mapping of str to bytes
            The generation that each key must have.
        deleted : sequence of KeyRange

        Returns
        -------
        str or None
            None if it is done; else a key whose condition does not hold, and nothing is changed.
        """
        ...


def answers_at_once(store: object) -> bool:
    """Return True if an operation takes so little time that another thread would take longer."""
    # Memory, an archive in a file, or what is kept in a transaction.
    traits = traits_of(store)
    waits = (traits.request_concurrency, traits.write_concurrency) != (None, None)
    return offers(store, Modifiable) or (offers(store, AtomicWritable) and not waits)


class Modifiable(Protocol):
    """A store that remembers how a value is to be changed, and does it when it knows the value."""

    def modify(self, key: str, modification: Modification) -> None:
        """Apply `modification` to the value of `key`, now or later, to the value that it then has."""
        ...


class KeysChecked(Protocol):
    """A store that doesn't take every text as a key."""

    def check_key(self, key: str) -> None:
        """Raise InvalidArgumentError for what is no key."""
        ...


class Reference(NamedTuple):
    """A value that is stored already, to be given to another key without being copied."""

    value: Any  # as the store keeps it
    load: Callable[[], Buffer]


class RangeCopies(Protocol):
    """A store in which a value can be that of several keys without being there twice."""

    def can_refer_to(self, source: object) -> bool:
        """Return True if keys of this store can have the values of `source`."""
        ...

    def references(self, source: Any, keys: KeyRange) -> Mapping[str, Reference]:
        """Return references to the values of `keys` of `source`, for keys of this store."""
        ...


class ReferenceWritable(Protocol):
    """A store that takes references, or a transaction of one."""

    def write_references(self, references: Mapping[str, Reference]) -> None:
        """Have keys of this store have values that are stored already, all at once."""
        ...


class Directories(Protocol):
    """A store that can rename, exchange or delete all that is below a path, the directory itself included."""

    def move_directory(self, source: str, target: str) -> None:
        """Have all keys that begin with ``source/`` begin with ``target/``, all at once.

        Parameters
        ----------
        source, target : str
            Without a final "/".  There must be no key below `target`.

        Raises
        ------
        AlreadyExistsError
            If there is one.
        """
        ...

    def delete_directory(self, path: str) -> None:
        """Delete all keys that begin with ``path/``, and what they were in."""
        ...

    def can_exchange(self, path: str) -> bool:
        """Return False if the directory, which need not exist, certainly can't be exchanged with another."""
        ...

    def exchange_directories(self, new: str, old: str, aside: str) -> bool:
        """Exchange the names of two directories, all at once; return False if `old` is not there any more.

        Parameters
        ----------
        new, old : str
            Without a final "/".
        aside : str
            Name that `old` has for a moment where the system exchanges nothing at once.

        Raises
        ------
        UnsupportedError
            If they can't be exchanged, because one is on another file system for example.
        """
        ...

    def link_keys(self, keys: Mapping[str, str]) -> None:
        """Have the value of each key be that of another, too; what is there under the other name stays."""
        ...
