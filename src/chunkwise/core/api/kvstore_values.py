"""Arguments and results of the operations of a ``KvStore``: key ranges, versions, read results."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, TypeAlias

from chunkwise.core.base.arguments import as_float, check_same_type
from chunkwise.core.kvstore import key_range
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange, Stamped
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "Key",
    "KeyRange",
    "ReadResult",
    "State",
    "TimestampedStorageGeneration",
    "as_byte_range",
    "as_bytes",
    "as_range",
    "as_text",
    "check_staleness",
    "read_result",
]

Key: TypeAlias = "bytes | str"
"""Bytes, or text, which means its UTF-8 bytes."""

State: TypeAlias = Literal["unspecified", "missing", "value"]


def as_bytes(value: object, name: str) -> bytes:
    """Return the bytes of a key, value or generation; raise TypeError with its name for anything else."""
    if isinstance(value, str):
        return key_range.encode_key(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError(f"{name} must be bytes or str, got {type(value).__name__}")


def as_text(value: object, name: str) -> str:
    """Return the text of a key; characters beyond ASCII mean UTF-8."""
    if not isinstance(value, str):
        return key_range.decode_key(as_bytes(value, name))
    if not value.isascii():
        key_range.encode_key(value)
    return value


def as_byte_range(value: object) -> ByteRange:
    """Return the byte range of a slice without a step."""
    if not isinstance(value, slice) or value.step is not None:
        raise TypeError(f"byte_range must be a slice without a step, got {value!r}")
    for bound in (value.start, value.stop):
        if bound is not None and (isinstance(bound, bool) or not hasattr(bound, "__index__")):
            raise TypeError(f"byte_range must have integers as bounds, got {value!r}")
    start, stop = value.start or 0, value.stop
    if stop is not None and (start < 0 or stop < start):
        raise InvalidArgumentError(f"Unsupported byte_range slice: {value.start}:{value.stop}")
    return ByteRange(int(start), None if stop is None else int(stop))


def check_staleness(bound: object) -> None:
    """Raise TypeError if an argument ``staleness_bound`` is not a time."""
    if bound is not None and not hasattr(bound, "__float__"):
        raise TypeError(f"staleness_bound must be a number, got {type(bound).__name__}")


class _Record:
    """Equality, pickling and copies of the records here, which are mutable and so have no hash."""

    __slots__ = ("__weakref__",)

    fields: ClassVar[tuple[str, ...]] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, _Record)
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Self:
        return type(self)(*self._values())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(*self._values())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()


class KeyRange(_Record):
    """The keys from one up to, but excluding, another, in the order of their bytes.

    Parameters
    ----------
    inclusive_min : bytes or str
    exclusive_max : bytes or str
        Empty for no bound.

    Examples
    --------
    >>> import chunkwise
    >>> chunkwise.KvStore.KeyRange("a", "b")
    KvStore.KeyRange(b'a', b'b')
    >>> chunkwise.KvStore.KeyRange("b", "a").empty
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
        """First key after the range, empty for no bound; can be set."""
        return self._max

    @exclusive_max.setter
    def exclusive_max(self, value: Key) -> None:
        self._max = as_bytes(value, "exclusive_max")

    @property
    def empty(self) -> bool:
        """True if no key is in the range."""
        return self._bounds().empty

    def copy(self) -> KeyRange:
        """Return an independent range with the same bounds."""
        return self.__copy__()

    def _bounds(self) -> key_range.KeyRange:
        return key_range.KeyRange(self._min, self._max)

    def __repr__(self) -> str:
        return f"KvStore.KeyRange({self._min!r}, {self._max!r})"


class TimestampedStorageGeneration(_Record):
    """Version of one key, and a time at which it was current.

    Parameters
    ----------
    generation : bytes or str
        Opaque; empty for unknown.
    time : float
        Seconds since the epoch.
    """

    __slots__ = ("_generation", "_time")

    fields: ClassVar[tuple[str, ...]] = ("generation", "time")

    def __init__(self, generation: Key = b"", time: float = float("-inf")) -> None:
        self._generation = as_bytes(generation, "generation")
        self._time = as_float(time, "time")

    @property
    def generation(self) -> bytes:
        """The version; can be set."""
        return self._generation

    @generation.setter
    def generation(self, value: Key) -> None:
        self._generation = as_bytes(value, "generation")

    @property
    def time(self) -> float:
        """Seconds since the epoch; can be set."""
        return self._time

    @time.setter
    def time(self, value: float) -> None:
        self._time = as_float(value, "time")

    def __repr__(self) -> str:
        return f"KvStore.TimestampedStorageGeneration({self._generation!r}, {self._time:.6f})"


_NO_STAMP = TimestampedStorageGeneration()


class ReadResult(_Record):
    """Result of reading one key.

    Parameters
    ----------
    state : {"unspecified", "missing", "value"}
        Unspecified if the caller already has the generation.
    value : bytes or str
    stamp : TimestampedStorageGeneration
    """

    __slots__ = ("_stamp", "_state", "_value")

    fields: ClassVar[tuple[str, ...]] = ("state", "value", "stamp")

    def __init__(
        self,
        state: State = "unspecified",
        value: Key = b"",
        stamp: TimestampedStorageGeneration = _NO_STAMP,
    ) -> None:
        self.state = state
        self.value = value
        self.stamp = stamp

    # Unlike the other records, two results are equal only if they are the same.
    __eq__ = object.__eq__
    __hash__ = object.__hash__  # type: ignore[assignment]

    @property
    def value(self) -> bytes:
        """The value; can be set."""
        return self._value

    @value.setter
    def value(self, value: Key) -> None:
        self._value = as_bytes(value, "value")

    @property
    def stamp(self) -> TimestampedStorageGeneration:
        """A copy of the version and the time at which it was current; can be set."""
        return self._stamp.__copy__()

    @stamp.setter
    def stamp(self, value: TimestampedStorageGeneration) -> None:
        if not isinstance(value, TimestampedStorageGeneration):
            raise TypeError(
                f"stamp must be a KvStore.TimestampedStorageGeneration, got {type(value).__name__}"
            )
        self._stamp = value.__copy__()

    @property
    def state(self) -> State:
        """True if there is a value; can be set."""
        return self._state

    @state.setter
    def state(self, value: State) -> None:
        if value not in ("unspecified", "missing", "value"):
            raise TypeError(f"state must be 'unspecified', 'missing' or 'value', got {value!r}")
        self._state: State = value

    def __repr__(self) -> str:
        return f"KvStore.ReadResult(state={self.state!r}, value={self.value!r}, stamp={self.stamp!r})"


def as_range(value: object) -> key_range.KeyRange:
    """Return the keys of a `KeyRange`; raise TypeError for anything else."""
    if not isinstance(value, KeyRange):
        raise TypeError(f"range must be a KvStore.KeyRange, got {type(value).__name__}")
    return value._bounds()


def read_result(found: Stamped, known: bytes) -> ReadResult:
    """Return a store's result as a result of `KvStore.read`, without a value if `known` is current."""
    stamp = TimestampedStorageGeneration(found.generation, found.time)
    if found.value is not None:
        return ReadResult("value", bytes(found.value), stamp)
    same = found.generation == known != MISSING_GENERATION
    return ReadResult("unspecified" if same else "missing", b"", stamp)
