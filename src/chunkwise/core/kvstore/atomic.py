"""Changing several keys of a store at once, and other abilities that only some stores have."""

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
"""Maps the value that a key has to its new value; None is a missing key.

It may be called several times, with different values, and must not keep its argument.
"""


class AtomicWritable(Protocol):
    """A store that can change several keys so that others see all of the changes or none."""

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
            None if done; otherwise a key whose condition failed, and nothing is changed.
        """
        ...


def answers_at_once(store: object) -> bool:
    """Return True if an operation takes less time than passing it to another thread."""
    # In memory, in an archive in a file, or in a transaction.
    traits = traits_of(store)
    waits = (traits.request_concurrency, traits.write_concurrency) != (None, None)
    return offers(store, Modifiable) or (offers(store, AtomicWritable) and not waits)


class Modifiable(Protocol):
    """A store that records how to change a value, and applies it once it knows the value."""

    def modify(self, key: str, modification: Modification) -> None:
        """Apply `modification` to the value of `key`, now or later, with the value at that time."""
        ...


class KeysChecked(Protocol):
    """A store that doesn't accept every text as a key."""

    def check_key(self, key: str) -> None:
        """Raise InvalidArgumentError for an invalid key."""
        ...


class Reference(NamedTuple):
    """A value that is stored already, to be shared with another key instead of copied."""

    value: Any  # in the store's own form
    load: Callable[[], Buffer]


class RangeCopies(Protocol):
    """A store in which several keys can share one stored value."""

    def can_refer_to(self, source: object) -> bool:
        """Return True if keys of this store can share the values of `source`."""
        ...

    def references(self, source: Any, keys: KeyRange) -> Mapping[str, Reference]:
        """Return references to the values of `keys` of `source`, for keys of this store."""
        ...


class ReferenceWritable(Protocol):
    """A store that accepts references, or a transaction of such a store."""

    def write_references(self, references: Mapping[str, Reference]) -> None:
        """Give keys of this store values that are stored already, all at once."""
        ...


class Directories(Protocol):
    """A store that can rename, exchange or delete everything below a path, including the directory itself."""

    def move_directory(self, source: str, target: str) -> None:
        """Rename all keys from ``source/...`` to ``target/...``, all at once.

        Parameters
        ----------
        source, target : str
            Without a final "/".  There must be no key below `target`.

        Raises
        ------
        AlreadyExistsError
            If there is a key below `target`.
        """
        ...

    def delete_directory(self, path: str, wanted: Callable[[str], bool] = ...) -> None:
        """Delete all keys that begin with ``path/``, or those that are `wanted`, and empty directories."""
        ...

    def can_exchange(self, path: str) -> bool:
        """Return False if the directory, which need not exist, certainly can't be exchanged."""
        ...

    def exchange_directories(self, new: str, old: str, aside: str) -> bool:
        """Exchange the names of two directories, all at once; return False if `old` no longer exists.

        Parameters
        ----------
        new, old : str
            Without a final "/".
        aside : str
            Temporary name for `old` if the system can't exchange two names at once.

        Raises
        ------
        UnsupportedError
            If they can't be exchanged, for example because one is on another file system.
        """
        ...

    def link_keys(self, keys: Mapping[str, str]) -> None:
        """Share the value of each key with another key, too; an existing value of the other key stays."""
        ...
