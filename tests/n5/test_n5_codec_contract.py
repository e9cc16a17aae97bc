"""The contract that every codec keeps, for those of N5."""

import numpy as np
import pytest

from chunkwise.core.base import catalogue
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.n5_varlength import N5StringBlock
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError
from chunkwise.testing.codec_contract import CodecContract

GZIP = {"type": "gzip", "level": 5, "useZlib": False}
BLOSC = {"type": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0}


class TestBzip2(CodecContract):
    format, stored_name = "n5", "bzip2"
    configurations = ({"blockSize": 1}, {"blockSize": 9})


class TestXz(CodecContract):
    format, stored_name = "n5", "xz"
    configurations = ({"preset": 0}, {"preset": 6})


class TestLz4Java(CodecContract):
    format, stored_name = "n5", "lz4"
    configurations = ({"blockSize": 64}, {"blockSize": 65536})


class BlockContract(CodecContract):
    format = "n5"
    configurations = ({"compression": {"type": "raw"}}, {"compression": GZIP}, {"compression": BLOSC})

    def codec(self, configuration):
        return catalogue.codecs[self.stored_name].parse("n5", self.stored_name, configuration)

    def test_unknown_member_is_an_error(self):
        with pytest.raises(ValueError, match="no such member"):
            self.codec({**self.configurations[0], "no such member": 1})


class TestN5Block(BlockContract):
    stored_name = "n5_block"


class TestN5StringBlock(BlockContract):
    stored_name = "n5_string_block"

    def arrays(self):
        for shape in self.shapes:
            out = np.empty(shape, object)
            for i in np.ndindex(shape):
                out[i] = "é中"[: sum(i) % 3] * (1 + sum(i))
            yield out

    def chain(self, codec, array):
        return prepare_chain([codec], ChunkSpec(array.shape, array.dtype, np.array("", object)))


class TestN5Default(CodecContract):
    format, stored_name = "zarr3", "n5_default"
    configurations = ({"codecs": []}, {"codecs": [{"name": "gzip", "configuration": {"level": 3}}]})

    def configuration_for(self, configuration, array):
        reverse = list(range(array.ndim))[::-1]
        order = {"name": "transpose", "configuration": {"order": reverse}}
        return {
            "codecs": [order, {"name": "bytes", "configuration": {"endian": "big"}}, *configuration["codecs"]]
        }

    def test_parse_is_the_inverse_of_to_json(self):
        for configuration in self.configurations:
            configuration = self.configuration_for(configuration, np.zeros((2, 3)))
            assert self.codec(configuration).to_json("zarr3") == configuration

    def test_unknown_member_is_an_error(self):
        configuration = self.configuration_for(self.configurations[0], np.zeros((2, 3)))
        with pytest.raises(ValueError, match="no such member"):
            self.codec({**configuration, "no such member": 1})


def test_strings_are_text():
    item = ChunkSpec((1,), np.dtype(object), np.array("", object))
    encode = N5StringBlock().open_encoder(item)
    with pytest.raises(CodecError, match="hold text, not bytes"):
        encode(np.array([b"a"], object))
    with pytest.raises(CodecError, match="not elements of data type int16"):
        N5StringBlock().bind(ChunkSpec((1,), np.dtype("i2"), np.zeros((), "i2")))


@pytest.mark.parametrize(("shape", "most"), [((2, 3), 4096), ((40, 60), 4 * 40 * 60)])
def test_blocks_of_strings_have_at_most_four_cells_or_4096_strings(shape, most):
    item = ChunkSpec(shape, np.dtype(object), np.array("", object))
    decode, out = N5StringBlock().open_decoder(item), np.full(shape, "x", object)
    decode(bytes.fromhex(f"00010002 {most:08x} 00000001 00000002 6100"), out)
    assert out[0, 0] == "a" and not any(out.ravel()[1:])
    with pytest.raises(DataCorruptionError, match="1 dimensions but expected 2"):
        decode(bytes.fromhex("00010001 00000001 00000002 6100"), out)
    with pytest.raises(DataCorruptionError, match="larger than blockSize"):
        decode(bytes.fromhex(f"00010002 {most + 1:08x} 00000001 00000002 6100"), out)


def test_a_header_that_promises_a_library_gets_no_memory():
    item = ChunkSpec((1,), np.dtype(object), np.array("", object))
    decode = N5StringBlock.parse("n5", "", {"compression": GZIP}).open_decoder(item)
    with pytest.raises(DataCorruptionError, match="promises 2147483647 bytes"):
        decode(bytes.fromhex("00010001 00000001 7fffffff 1f8b08"), np.empty(1, object))
