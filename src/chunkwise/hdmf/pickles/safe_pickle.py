"""The pickles in HDMF stores, read as data: nothing is imported, called or built but plain values."""

# Every chunk of an object array that hdmf-zarr wrote with its default codec is one pickle of a NumPy array.
# Six names occur in them (`TOKENS`); each becomes a stub that says what was written.  Any other name
# and any opcode that such a pickle has no need of is an error, and so is whatever would make the result
# larger than the input could be.  The array is made later, from the ``.zarray``, never from the pickle:
# the state of a pickled dtype can crash NumPy.

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from chunkwise.errors import DataCorruptionError

__all__ = [
    "TOKENS",
    "ArrayStub",
    "DtypeStub",
    "ReferenceStub",
    "ScalarStub",
    "UnsafePickleError",
    "parse_pickle",
]

MAX_DEPTH = 1000
"""Largest number of values on the stack under marks."""


class UnsafePickleError(DataCorruptionError):
    """A pickle that holds anything but an array of plain values and references."""


@dataclass(frozen=True, slots=True)
class Token:
    """A name that a pickle may mention; it stands for itself and is never looked up."""

    name: str


_RECONSTRUCT = Token("numpy._core.multiarray._reconstruct")
_SCALAR = Token("numpy._core.multiarray.scalar")
_NDARRAY = Token("numpy.ndarray")
_DTYPE = Token("numpy.dtype")
_REFERENCE = Token("hdmf_zarr.utils.ZarrReference")
_ENCODE = Token("_codecs.encode")

TOKENS: dict[tuple[str, str], Token] = {
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "scalar"): _SCALAR,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("hdmf_zarr.utils", "ZarrReference"): _REFERENCE,
    ("_codecs", "encode"): _ENCODE,
}


@dataclass(slots=True, eq=False)
class ArrayStub:
    """A pickled array: `state` is (shape, dtype stub, is_fortran, list of elements or raw bytes)."""

    state: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class DtypeStub:
    """A pickled data type: its type string, and the state that describes members."""

    text: str
    state: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class ScalarStub:
    """A pickled NumPy scalar: its data type and bytes."""

    dtype: DtypeStub
    raw: bytes


@dataclass(slots=True, eq=False)
class ReferenceStub:
    """A pickled ``ZarrReference``: a dict under another name."""

    items: dict[str, Any] = field(default_factory=dict)


class _Mark:
    __slots__ = ()


_MARK = _Mark()


def _fail(text: str) -> NoReturn:
    raise UnsafePickleError(f"refused pickle: {text}")


class _Machine:
    """The stack machine; one per pickle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.n_marks = 0
        self.n_opcodes = 0

    def take(self, n: int) -> bytes:
        if n > len(self.data) - self.at:
            _fail("it is truncated")
        self.at += n
        return self.data[self.at - n : self.at]

    def size(self, n_bytes: int) -> int:
        return int.from_bytes(self.take(n_bytes), "little")

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + 200)
        if end < 0:
            _fail("it is truncated")
        text = self.data[self.at : end].decode("ascii", "replace")
        self.at = end + 1
        return text

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            _fail("its stack is empty")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        items: list[Any] = []
        while self.stack:
            value = self.stack.pop()
            if value is _MARK:
                self.n_marks -= 1
                items.reverse()
                return items
            items.append(value)
        _fail("a mark is missing")

    def top(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            _fail("its stack is empty")
        return self.stack[-1]

    def run(self) -> Any:
        push, data, memo, end = self.stack.append, self.data, self.memo, len(self.data)
        while self.at < end:
            opcode = data[self.at]
            self.at += 1
            self.n_opcodes += 1
            if opcode == _STOP:
                break
            if opcode == _LONG_GET and self.at + 4 <= end:  # a third of the opcodes in lists of records
                slot = int.from_bytes(data[self.at : self.at + 4], "little")
                self.at += 4
                push(memo[slot] if slot in memo else self.get(slot))
                continue
            handler = _HANDLERS[opcode]
            if handler is None:
                _fail(f"opcode {bytes((opcode,))!r} at byte {self.at - 1}")
            value = handler(self)
            if value is not _NOTHING:
                push(value)
        else:
            _fail("it is truncated")
        value = self.pop()
        if self.stack:
            _fail("values are left on its stack")
        if self.at != len(self.data):
            _fail("data follows its end")
        return value

    # -- opcodes with a body ----------------------------------------------------------------------

    def text(self, n: int) -> str:
        try:
            return self.take(n).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as e:
            _fail(str(e))

    def put(self, slot: int) -> Any:
        self.memo[slot] = self.top()
        return _NOTHING

    def get(self, slot: int) -> Any:
        if slot not in self.memo:
            _fail(f"memo entry {slot} is missing")
        return self.memo[slot]

    def token(self, module: Any, name: Any) -> Token:
        found = TOKENS.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
        if found is None:
            _fail(f"it names {str(module)[:100]}.{str(name)[:100]}")
        return found

    def stack_global(self) -> Token:
        name = self.pop()
        return self.token(self.pop(), name)

    def mark(self) -> Any:
        self.n_marks += 1
        if self.n_marks > MAX_DEPTH:
            _fail(f"it is nested deeper than {MAX_DEPTH}")
        return _MARK

    def tuple_of(self, n: int) -> tuple[Any, ...]:
        items = [self.pop() for _ in range(n)]
        return tuple(reversed(items))

    def append(self, items: list[Any]) -> Any:
        target = self.top()
        if not isinstance(target, list):
            _fail(f"it appends to a {type(target).__name__}")
        target.extend(items)
        return _NOTHING

    def set_items(self, items: list[Any]) -> Any:
        target = self.top()
        if isinstance(target, ReferenceStub):
            target = target.items
        if not isinstance(target, dict) or len(items) % 2:
            _fail(f"it sets items of a {type(target).__name__}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str):
                _fail("a key is not a string")
            target[key] = value
        return _NOTHING

    def set_item(self) -> Any:
        value = self.pop()
        key = self.pop()
        return self.set_items([key, value])

    def reduce(self) -> Any:
        arguments = self.pop()
        callee = self.pop()
        if not isinstance(arguments, tuple):
            _fail("arguments are not a tuple")
        if callee is _RECONSTRUCT:
            if len(arguments) != 3 or arguments[0] is not _NDARRAY:
                _fail("an array is not reconstructed as NumPy does it")
            return ArrayStub()
        if callee is _DTYPE:
            if not arguments or not isinstance(arguments[0], str):
                _fail("a data type is not given by its name")
            return DtypeStub(arguments[0])
        if callee is _SCALAR:
            if (
                len(arguments) != 2
                or not isinstance(arguments[0], DtypeStub)
                or type(arguments[1]) is not bytes
            ):
                _fail("a scalar is not a data type and its bytes")
            return ScalarStub(*arguments)
        if (
            callee is _ENCODE
            and len(arguments) == 2
            and arguments[1] == "latin1"
            and isinstance(arguments[0], str)
        ):
            try:
                return arguments[0].encode("latin1")
            except UnicodeEncodeError as e:
                _fail(str(e))
        _fail(f"it calls {callee.name if isinstance(callee, Token) else type(callee).__name__}")

    def new_object(self) -> ReferenceStub:
        arguments = self.pop()
        if self.pop() is not _REFERENCE or arguments != ():
            _fail("it makes an object other than a reference")
        return ReferenceStub()

    def build(self) -> Any:
        state = self.pop()
        target = self.top()
        if (
            not isinstance(state, tuple)
            or not isinstance(target, ArrayStub | DtypeStub)
            or target.state is not None
        ):
            _fail(f"it sets the state of a {type(target).__name__}")
        if isinstance(target, ArrayStub):
            if (
                len(state) != 5
                or not isinstance(state[1], tuple)
                or not all(type(n) is int and n >= 0 for n in state[1])
                or len(state[1]) > 32
                or not isinstance(state[2], DtypeStub)
                or type(state[3]) is not bool
                or not isinstance(state[4], list | bytes)
            ):
                _fail("the state of an array is malformed")
            target.state = state[1:]
        else:
            if len(state) not in (8, 9):
                _fail("the state of a data type is malformed")
            target.state = state
        return _NOTHING


_NOTHING = object()
_STOP, _LONG_GET = b".j"


def _long(machine: _Machine) -> int:
    n = machine.size(1)
    if n > 16:
        _fail(f"an integer has {n} bytes")
    return int.from_bytes(machine.take(n), "little", signed=True)


_OPCODES: dict[bytes, Callable[[_Machine], Any]] = {
    b"\x80": lambda m: (m.take(1), _NOTHING)[1],  # PROTO
    b"\x95": lambda m: (m.take(8), _NOTHING)[1],  # FRAME
    b"\x8c": lambda m: m.text(m.size(1)),
    b"X": lambda m: m.text(m.size(4)),
    b"\x8d": lambda m: m.text(m.size(8)),
    b"C": lambda m: m.take(m.size(1)),
    b"B": lambda m: m.take(m.size(4)),
    b"\x8e": lambda m: m.take(m.size(8)),
    b"\x94": lambda m: m.put(len(m.memo)),
    b"q": lambda m: m.put(m.size(1)),
    b"r": lambda m: m.put(m.size(4)),
    b"h": lambda m: m.get(m.size(1)),
    b"j": lambda m: m.get(m.size(4)),
    b"\x93": _Machine.stack_global,
    b"c": lambda m: m.token(m.line(), m.line()),
    b"J": lambda m: int.from_bytes(m.take(4), "little", signed=True),
    b"K": lambda m: m.size(1),
    b"M": lambda m: m.size(2),
    b"\x8a": _long,
    b"G": lambda m: struct.unpack(">d", m.take(8))[0],
    b"N": lambda m: None,
    b"\x88": lambda m: True,
    b"\x89": lambda m: False,
    b")": lambda m: (),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"(": _Machine.mark,
    b"t": lambda m: tuple(m.pop_to_mark()),
    b"]": lambda m: [],
    b"a": lambda m: m.append([m.pop()]),
    b"e": lambda m: m.append(m.pop_to_mark()),
    b"}": lambda m: {},
    b"s": _Machine.set_item,
    b"u": lambda m: m.set_items(m.pop_to_mark()),
    b"R": _Machine.reduce,
    b"\x81": _Machine.new_object,
    b"b": _Machine.build,
}

_HANDLERS = [_OPCODES.get(bytes((opcode,))) for opcode in range(256)]


def parse_pickle(data: bytes) -> tuple[Any, int]:
    """Return the value of a pickle, with stubs for objects that aren't plain, and its number of opcodes."""
    machine = _Machine(data)
    return machine.run(), machine.n_opcodes
