"""What goes into the operations of a ``KvStore`` and comes out of them: key ranges, versions, results."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from chunkwise.kvstore import key_range

__all__ = ["Key", "KeyRange", "ReadResult", "State", "TimestampedStorageGeneration", "as_bytes"]

Key: TypeAlias = "bytes | str"
"""Bytes, or text that stands for its UTF-8 bytes."""

State: TypeAlias = Literal["unspecified", "missing", "value"]


def as_bytes(value: object, name: str) -> bytes:
    """Return the bytes of a key, value or generation; raise TypeError, naming it, for anything else."""
    if isinstance(value, str):
        return key_range.encode_key(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError(f"{name} must be bytes or str, got {type(value).__name__}")


class _Record:
    """Equality, pickling and copies of the records here, which can be changed and so have no hash."""

    __slots__ = ()

    fields: ClassVar[tuple[str, ...]] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()


class KeyRange(_Record):
    """The keys from one up to, but without, another, in the order of their bytes.

    Parameters
    ----------
    inclusive_min : bytes or str
    exclusive_max : bytes or str
        Empty for no bound.

    Examples
    --------
    >>> KeyRange("a", "b")
    KvStore.KeyRange(b'a', b'b')
    >>> KeyRange("b", "a").empty
    True
    """

    __slots__ = ("_max", "_min")

    fields: ClassVar[tuple[str, ...]] = ("inclusive_min", "exclusive_max")

    def __init__(self, inclusive_min: Key = b"", exclusive_max: Key = b"") -> None:
        self._min = as_bytes(inclusive_min, "inclusive_min")
        self._max = as_bytes(exclusive_max, "exclusive_max")

    @property
    def inclusive_min(self) -> bytes:
        """First key that may be in the range; can be set."""
        return self._min

    @inclusive_min.setter
    def inclusive_min(self, value: Key) -> None:
        self._min = as_bytes(value, "inclusive_min")

    @property
    def exclusive_max(self) -> bytes:
        """First key beyond the range, empty for no bound; can be set."""
        return self._max

    @exclusive_max.setter
    def exclusive_max(self, value: Key) -> None:
        self._max = as_bytes(value, "exclusive_max")

    @property
    def empty(self) -> bool:
        """Whether no key is in the range."""
        return self._bounds().empty

    def copy(self) -> KeyRange:
        """Return an independent range with the same bounds."""
        return KeyRange(self._min, self._max)

    def _bounds(self) -> key_range.KeyRange:
        return key_range.KeyRange(self._min, self._max)

    def __repr__(self) -> str:
        return f"KvStore.KeyRange({self._min!r}, {self._max!r})"


class TimestampedStorageGeneration(_Record):
    """Version of one key, and when it was known to be current.

    Parameters
    ----------
    generation : bytes or str
        Opaque; empty for unknown.
    time : float
        Seconds since the epoch.
    """

    __slots__ = ("generation", "time")

    fields: ClassVar[tuple[str, ...]] = ("generation", "time")

    generation: bytes
    time: float

    def __init__(self, generation: Key = b"", time: float = float("-inf")) -> None:
        self.generation = as_bytes(generation, "generation")
        self.time = float(time)

    def __repr__(self) -> str:
        return f"KvStore.TimestampedStorageGeneration({self.generation!r}, {self.time:.6f})"


class ReadResult(_Record):
    """What reading one key gave.

    Parameters
    ----------
    state : {"unspecified", "missing", "value"}
        Unspecified if the generation is the one that the caller has already.
    value : bytes or str
    stamp : TimestampedStorageGeneration
    """

    __slots__ = ("_state", "stamp", "value")

    fields: ClassVar[tuple[str, ...]] = ("state", "value", "stamp")

    value: bytes
    stamp: TimestampedStorageGeneration

    def __init__(
        self,
        state: State = "unspecified",
        value: Key = b"",
        stamp: TimestampedStorageGeneration | None = None,
    ) -> None:
        self.state = state
        self.value = as_bytes(value, "value")
        self.stamp = TimestampedStorageGeneration() if stamp is None else stamp

    @property
    def state(self) -> State:
        """Whether there is a value; can be set."""
        return self._state

    @state.setter
    def state(self, value: State) -> None:
        if value not in ("unspecified", "missing", "value"):
            raise TypeError(f"state must be 'unspecified', 'missing' or 'value', got {value!r}")
        self._state: State = value

    def __repr__(self) -> str:
        return f"KvStore.ReadResult(state={self.state!r}, value={self.value!r}, stamp={self.stamp!r})"
