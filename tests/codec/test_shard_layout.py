"""A shard that is put together holds what was put in, whatever its inner chunks take."""

from __future__ import annotations

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import parse_codecs, prepare_chain
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.codec.sharding import MISSING, ShardBody, ShardLayout

N = 6
LITTLE = {"bytes": {"endian": "little"}}


def form(*, at_end: bool) -> ShardLayout:
    item = ChunkSpec((N, 2), np.dtype("u8"), np.array(MISSING, "u8"))
    chain = prepare_chain([Bytes("little"), Crc32c()], item)
    assert chain.encoded_nbytes is not None
    return ShardLayout((N,), N, chain, chain.encoded_nbytes, at_end)


shards = st.lists(
    st.dictionaries(st.integers(0, N - 1), st.binary(max_size=300)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(200), deadline=None)
@given(shards, st.booleans())
def test_it_holds_what_was_put_in(contents, at_end):
    its_form = form(at_end=at_end)
    body = ShardBody(its_form)
    for chunks in contents:
        body.clear()
        for position, content in sorted(chunks.items()):
            body.append(position, content)
        shard = body.finish()
        if not chunks:
            assert shard is None
            continue
        assert shard is not None
        assert bytes(shard) == its_form.encode_shard(chunks)
        index = its_form.decode_shard(memoryview(bytes(shard)))
        ranges = {position: its_form.bounds(index, position) for position in range(N)}
        found = {
            position: bytes(shard[slice(*bounds)])
            for position, bounds in ranges.items()
            if bounds is not None
        }
        assert found == chunks
        assert its_form.present(index).tolist() == sorted(chunks)
        assert len(shard) == sum(map(len, found.values())) + its_form.index_nbytes


@pytest.mark.parametrize("at_end", [False, True])
def test_what_comes_after_is_no_part_of_it(at_end):
    body = ShardBody(form(at_end=at_end))
    body.clear()
    body.append(0, b"x" * 1000)
    body.finish()
    body.clear()
    body.append(5, b"y")
    shard = body.finish()
    assert shard is not None
    assert b"x" not in bytes(shard)


@pytest.mark.parametrize(
    "inner", [["bytes"], ["bytes", "crc32c"], ["bytes", "zstd"], ["bytes", "gzip", "crc32c"]]
)
@pytest.mark.parametrize("index", [["bytes"], ["bytes", "crc32c"]])
def test_no_shard_is_larger_than_its_bound(inner, index):
    """Noise does not compress."""
    named = [
        [{"name": name, "configuration": LITTLE.get(name, {})} for name in names] for names in (inner, index)
    ]
    configuration = {"chunk_shape": [64, 512], "codecs": named[0], "index_codecs": named[1]}
    (codec,) = parse_codecs([{"name": "sharding_indexed", "configuration": configuration}])
    item = ChunkSpec((128, 1536), np.dtype("u2"), np.zeros((), "u2"))
    bound = codec.bind(item)
    noise = np.random.default_rng(0).integers(1, 2**16, item.shape).astype("u2")
    shard = bytes(bound.open_encoder(item)(noise))
    most = bound.most_encoded(item)
    assert most is not None
    assert len(shard) <= most <= 2 * len(shard) + 6 * (1 << 17)
