"""Codecs that zarr-python lacks, against zarrs (Rust), which writes and reads through zarr-python."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import zarr
from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
from zarr.registry import register_codec

from chunkwise.core.codec.chain import parse_codecs, prepare_chain
from chunkwise.testing.codec_contract import chunk_of, numbers

LE = {"name": "bytes", "configuration": {"endian": "little"}}


def _register(name, base):
    """Make zarr-python pass the metadata of a codec on to zarrs without understanding it."""

    @dataclass(frozen=True)
    class Passed(base):
        text: str = ""
        is_fixed_size = True

        @classmethod
        def from_dict(cls, data):
            return cls(json.dumps(data.get("configuration", {})))

        def to_dict(self):
            return {"name": name, "configuration": json.loads(self.text)}

        def compute_encoded_size(self, input_byte_length, chunk_spec):
            return input_byte_length

        async def _decode_single(self, chunk_data, chunk_spec):
            raise AssertionError("zarrs was to decode")

        async def _encode_single(self, chunk_data, chunk_spec):
            raise AssertionError("zarrs was to encode")

    register_codec(name, Passed)


_register("packbits", ArrayBytesCodec)
_register("reshape", ArrayArrayCodec)


def packbits(**configuration):
    return [{"name": "packbits", "configuration": configuration}]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("codecs", "array"),
    [
        (packbits(), numbers("?", (3, 7))),
        (packbits(padding_encoding="first_byte"), numbers("?", (3, 7))),
        (packbits(padding_encoding="last_byte", first_bit=1, last_bit=10), numbers("u2", (3, 5)) & 0x7FE),
        (packbits(last_bit=5), numbers("i1", (3, 5)) >> 2),
        (packbits(first_bit=3), numbers("i4", (5,)) & ~7),
        (packbits(), numbers("f4", (3, 5))),
        ([{"name": "reshape", "configuration": {"shape": [[0, 1]]}}, LE], numbers("f4", (4, 5))),
        ([{"name": "reshape", "configuration": {"shape": [10, -1]}}, LE], numbers("f4", (4, 5))),
    ],
)
def test_zarrs(codecs, array, tmp_path):
    """The same bytes, and each reads the other's."""
    document = {
        "zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.shape}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": False if array.dtype == bool else 0, "codecs": codecs, "attributes": {},
    }  # fmt: skip
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    chunk = tmp_path.joinpath("c", *"0" * array.ndim)
    chain = prepare_chain(parse_codecs(codecs), chunk_of(array))
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}):
        z = zarr.open_array(tmp_path)
        z[...] = array
        assert chunk.read_bytes() == bytes(chain.open_encoder()(array))
        assert np.asarray(z[...]).tobytes() == array.tobytes()
    out = np.zeros_like(array)
    chain.open_decoder()(chunk.read_bytes(), out)
    assert out.tobytes() == array.tobytes()
