"""Bytes to bytes codecs that NumCodecs itself computes.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/ , the page of each codec.

Names
-----
zarr2: ``crc32``, ``adler32``, ``fletcher32``, ``jenkins_lookup3``, ``shuffle``, ``base64``; zarr3: the same
with ``numcodecs.`` in front.

Configuration
-------------
>>> Shuffle.parse("zarr2", "shuffle", {"elementsize": 2}).to_json("zarr2")
{'elementsize': 2}

Compatibility
-------------
``elementsize`` 0 of ``shuffle``, which netCDF-C writes, is the size of the data type; NumCodecs shuffles
nothing then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numcodecs.registry
import numpy as np

from chunkwise.core.base.binding import JSON, check_known
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, ChunkSpec, byte_view, size_error
from chunkwise.errors import CodecError, DataCorruptionError, SpecError

__all__ = ["Adler32", "Base64", "Crc32", "Fletcher32", "JenkinsLookup3", "NumcodecsBytes", "Shuffle"]


@dataclass(frozen=True)
class NumcodecsBytes(BytesToBytes):
    """Bytes to bytes, by a codec of NumCodecs with this `id`."""

    configuration: tuple[tuple[str, JSON], ...] = ()  # its members, sorted by name

    name: ClassVar[str] = ""
    id: ClassVar[str] = ""
    members: ClassVar[tuple[str, ...]] = ()
    overhead: ClassVar[int | None] = 4

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        check_known(configuration, cls.members)
        codec = cls(
            tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in configuration.items()))
        )
        codec._instance()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        return {key: list(v) if isinstance(v, tuple) else v for key, v in self.configuration}

    def _instance(self) -> Any:
        try:
            return numcodecs.registry.get_codec({"id": self.id, **self.to_json("zarr2")})
        except (TypeError, ValueError, KeyError) as e:
            raise SpecError(f'"{self.id}" codec can\'t be used as configured: {e}') from e

    def encoded_nbytes(self, decoded_nbytes: int) -> int | None:
        return None if self.overhead is None else decoded_nbytes + self.overhead

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        instance, id = self._instance(), self.id

        def decode(encoded: Buffer) -> Buffer:
            view = byte_view(encoded)
            if self.overhead is not None:
                n = len(view) - self.overhead
                if n < 0 or (decoded_nbytes is not None and n != decoded_nbytes):
                    raise size_error(id, n, decoded_nbytes or 0)
            try:
                decoded = byte_view(instance.decode(np.frombuffer(view, np.uint8)))
            except (RuntimeError, TypeError, ValueError) as e:
                raise DataCorruptionError(f'"{id}" codec: {e}') from e
            if decoded_nbytes is not None and len(decoded) != decoded_nbytes:
                raise size_error(id, len(decoded), decoded_nbytes)
            return decoded

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        instance, id = self._instance(), self.id

        def encode(decoded: Buffer) -> Buffer:
            try:
                return byte_view(instance.encode(np.frombuffer(decoded, np.uint8)))
            except (RuntimeError, TypeError, ValueError) as e:
                raise CodecError(f'"{id}" codec: {e}') from e

        return encode


class Crc32(NumcodecsBytes):
    """A CRC-32 checksum of four bytes, before the content unless `location` is "end"."""

    name, id, members = "numcodecs.crc32", "crc32", ("location",)
    always_checked = True


class Adler32(NumcodecsBytes):
    """An Adler-32 checksum of four bytes, before the content unless `location` is "end"."""

    name, id, members = "numcodecs.adler32", "adler32", ("location",)
    always_checked = True


class Fletcher32(NumcodecsBytes):
    """A Fletcher-32 checksum of four bytes after the content, as in HDF5."""

    name, id = "numcodecs.fletcher32", "fletcher32"
    always_checked = True


class JenkinsLookup3(NumcodecsBytes):
    """A Jenkins lookup3 checksum of four bytes after the content, as in HDF5."""

    name, id, members = "numcodecs.jenkins_lookup3", "jenkins_lookup3", ("initval", "prefix")
    always_checked = True


class Shuffle(NumcodecsBytes):
    """The first bytes of all elements, then the second ones, and so on."""

    name, id, members, overhead = "numcodecs.shuffle", "shuffle", ("elementsize",), 0

    def bind(self, item: ChunkSpec) -> Self:
        if dict(self.configuration).get("elementsize") != 0:
            return self
        return replace(
            self, configuration=(("elementsize", 1 if item.dtype.hasobject else item.dtype.itemsize),)
        )


class Base64(NumcodecsBytes):
    """Base64 text."""

    name, id, overhead = "numcodecs.base64", "base64", None

    def encoded_nbytes(self, decoded_nbytes: int) -> int | None:
        return -(-decoded_nbytes // 3) * 4
