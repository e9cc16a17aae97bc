"""The contract of codecs, as a suite of tests to inherit from.

Examples
--------
In a test module of the codec::

    class TestMyCompressor(CodecContract):
        format, stored_name = "zarr3", "my_compressor"
        configurations = ({"level": 1}, {"level": 9})
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chunkwise.core.base import catalogue
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import Chain, prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec, Codec
from chunkwise.errors import DataCorruptionError, InvalidArgumentError

__all__ = ["CodecContract", "chunk_of", "numbers"]

SHAPES = ((), (1,), (7,), (3, 5), (2, 3, 4))


def numbers(type: Any, shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[Any]:
    """Return an array of pseudo-random elements of any data type of fixed size, without NaN."""
    dtype: np.dtype[Any] = np.dtype(type)
    r = np.random.default_rng(seed)
    n = int(np.prod(shape, dtype=int))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return r.integers(info.min, info.max, n, dtype, endpoint=True).reshape(shape)
    if dtype.kind in "fc":
        real = r.normal(0, 100, n)
        parts: npt.NDArray[Any] = real + 1j * r.normal(0, 1, n) if dtype.kind == "c" else real
        return parts.astype(dtype).reshape(shape)
    if dtype.kind == "b":
        return (r.random(n) < 0.5).reshape(shape)
    if dtype.kind in "mM":
        return r.integers(-(2**40), 2**40, n).view(dtype).reshape(shape)
    if dtype.kind == "U":
        return np.array([chr(97 + int(i)) * int(i % 4) for i in r.integers(0, 26, n)], dtype).reshape(shape)
    if dtype.isbuiltin == 2:
        return r.integers(-4, 4, n).astype(dtype).reshape(shape)
    return np.frombuffer(r.bytes(n * dtype.itemsize), dtype).reshape(shape)


def chunk_of(array: npt.NDArray[Any]) -> ChunkSpec:
    """Return the description of a chunk like `array`, with a fill value of zero."""
    return ChunkSpec(array.shape, array.dtype, np.zeros((), array.dtype))


def _strided(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Yield arrays equal to `array`, or places for one, in several memory layouts."""
    yield np.array(array, order="C")
    yield np.array(array, order="F")
    if array.ndim:
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        yield wide[..., ::2]
        yield np.array(array[::-1], order="C")[::-1]


class CodecContract:
    """The suite; a subclass sets the codec's name and the arrays to try.

    Attributes
    ----------
    format, stored_name : str
        The format to parse in, and the codec's name there.
    configurations : tuple of dict
        Configurations to try; `canonical` are what they are written as, where that differs.
    dtypes : tuple
        Data types to try with the standard shapes.
    lossy : bool
        True if decoding does not restore the elements bit by bit; then encoding again must.
    """

    format: ClassVar[str] = "zarr3"
    stored_name: ClassVar[str] = ""
    configurations: ClassVar[tuple[dict[str, Any], ...]] = ({},)
    canonical: ClassVar[tuple[dict[str, Any], ...] | None] = None
    dtypes: ClassVar[tuple[Any, ...]] = ("u1", "i2", "f4", "u8", "c8")
    shapes: ClassVar[tuple[tuple[int, ...], ...]] = SHAPES
    lossy: ClassVar[bool] = False

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the chunks to encode; by default each data type in each shape."""
        for dtype in self.dtypes:
            for shape in self.shapes:
                yield numbers(dtype, shape)

    def configuration_for(self, configuration: dict[str, Any], array: npt.NDArray[Any]) -> dict[str, Any]:
        """Return the configuration to use for `array`; by default the one given."""
        return configuration

    def codec(self, configuration: dict[str, Any]) -> Codec:
        """Return the codec as the registry finds and parses it."""
        cls = catalogue.codecs.find(self.stored_name, self.format)
        return cls.parse(self.format, self.stored_name, configuration)  # type: ignore[no-any-return]

    def chain(self, codec: Codec, array: npt.NDArray[Any]) -> Chain:
        """Return `codec`, completed to a chain for chunks like `array`."""
        whole = {
            "array->array": [codec, Bytes()],
            "array->bytes": [codec],
            "bytes->bytes": [Bytes(), codec],
        }[codec.kind]
        return prepare_chain(whole, chunk_of(array))

    def same(self, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
        """Return True if two arrays hold the same elements, bit by bit."""
        if a.dtype.hasobject:
            return all(
                type(x) is type(y) and (np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y)
                for x, y in zip(a.flat, b.flat, strict=True)
            )
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()

    def cases(self) -> Iterator[tuple[npt.NDArray[Any], Chain]]:
        """Yield every array with the chain of every configuration."""
        for configuration in self.configurations:
            for array in self.arrays():
                yield array, self.chain(self.codec(self.configuration_for(configuration, array)), array)

    def test_parse_is_the_inverse_of_to_json(self) -> None:
        """Writing what was parsed gives the same members, and parsing that the same codec."""
        for configuration, written in zip(
            self.configurations, self.canonical or self.configurations, strict=True
        ):
            codec = self.codec(configuration)
            assert codec.to_json(self.format) == written
            assert self.codec(codec.to_json(self.format)) == codec

    def test_unknown_member_is_an_error(self) -> None:
        """A member that the codec does not know is an error that names it; in N5 it may be ignored."""
        try:
            self.codec({**self.configurations[0], "no such member": 1})
        except InvalidArgumentError as e:
            assert "no such member" in str(e)
        else:
            assert self.format == "n5"

    def test_binding_settles_everything(self) -> None:
        """A bound codec, written and parsed, is bound to itself."""
        for _, chain in self.cases():
            rebound = prepare_chain(chain.codecs, chain.item)
            assert rebound.codecs == chain.codecs

    def test_round_trip(self) -> None:
        """Arrays of any strides are encoded, and decoded into memory of any strides."""
        for array, chain in self.cases():
            encode, decode = chain.open_encoder(), chain.open_decoder()
            encoded = bytes(encode(array))
            assert chain.encoded_nbytes in (None, len(encoded))
            expected = np.zeros_like(array)
            decode(encoded, expected)
            if self.lossy:
                assert bytes(encode(expected)) == encoded
            else:
                assert self.same(expected, array)
            for source in _strided(array):
                assert bytes(encode(source)) == encoded
            for out in _strided(np.zeros_like(array)):
                decode(memoryview(encoded), out)
                assert self.same(np.array(out, order="C"), expected)

    def test_decoder_keeps_nothing_between_chunks(self) -> None:
        """Chunks decoded one after the other don't mix, even after a failure."""
        for array, chain in self.cases():
            encode, decode = chain.open_encoder(), chain.open_decoder()
            first, second = bytes(encode(array)), bytes(encode(np.ascontiguousarray(array[::-1])
                                                           if array.ndim else array))  # fmt: skip
            a, b, again = (np.zeros_like(array) for _ in range(3))
            decode(first, a)
            with suppress(DataCorruptionError):
                decode(first[: len(first) // 2], np.zeros_like(array))
            decode(second, b)
            decode(first, again)
            assert self.same(a, again)

    def test_truncated_and_extended_bytes(self) -> None:
        """A chunk with bytes missing or left over is an error, or decodes to the right elements."""
        for array, chain in self.cases():
            encoded = bytes(chain.open_encoder()(array))
            expected = np.zeros_like(array)
            decode = chain.open_decoder()
            decode(encoded, expected)
            cuts = sorted({0, 1, 4, len(encoded) // 2, max(0, len(encoded) - 1)})
            damaged = [encoded[:n] for n in cuts if n < len(encoded)]
            for bad in (*damaged, encoded + b"\x01", encoded + b"\0" * 17, encoded + encoded):
                out = np.zeros_like(array)
                try:
                    decode(bad, out)
                except DataCorruptionError:
                    continue
                assert self.same(out, expected), f"{len(bad)} instead of {len(encoded)} bytes"

    def test_flipped_bits(self) -> None:
        """A chunk with wrong bits is an error or decodes to something; nothing else happens."""
        r = random.Random(0)
        for array, chain in self.cases():
            encoded = bytes(chain.open_encoder()(array))
            decode = chain.open_decoder()
            for _ in range(30 if encoded else 0):
                bad = bytearray(encoded)
                for _ in range(r.choice((1, 1, 3))):
                    bad[r.randrange(len(bad))] ^= 1 << r.randrange(8)
                with suppress(DataCorruptionError):
                    decode(bytes(bad), np.zeros_like(array))

    def test_two_threads(self) -> None:
        """Two workers with a decoder and an encoder each don't disturb one another."""
        array, chain = max(self.cases(), key=lambda case: case[0].size)
        encoded = bytes(chain.open_encoder()(array))
        expected = np.zeros_like(array)
        chain.open_decoder()(encoded, expected)
        failures: list[Any] = []

        def work() -> None:
            try:
                encode, decode = chain.open_encoder(), chain.open_decoder()
                for _ in range(50):
                    out = np.zeros_like(array)
                    decode(encoded, out)
                    if not self.same(out, expected) or bytes(encode(array)) != encoded:
                        failures.append("result differs")
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
