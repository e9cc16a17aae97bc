"""The codec ``squeeze``: LZMA, as Python has it."""

import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chunkwise.extension import Buffer, BytesToBytes, DataCorruptionError, Members, expect_int


@dataclass(frozen=True)
class Squeeze(BytesToBytes):
    """Encoder and decoder with one option."""

    preset: int = 1
    name = "squeeze"
    short_option = "preset"  # of the text "squeeze:3"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> "Squeeze":
        members = Members(configuration)
        preset = members.take("preset", lambda value: expect_int(value, 0, 9), 1)
        members.finish()  # an unknown member is an error that names it
        return cls(preset)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"preset": self.preset}

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return lambda data: lzma.compress(data, preset=self.preset)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        def decode(data: Buffer) -> Buffer:
            try:  # no more memory than was asked for, and none but this error for bad data
                return lzma.LZMADecompressor().decompress(
                    data, -1 if decoded_nbytes is None else decoded_nbytes
                )
            except lzma.LZMAError as e:
                raise DataCorruptionError(f"squeeze: {e}") from e

        return decode
