"""Pictures of planes are as good, or as small, as was asked for."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.pictures import ImagePlanes
from chunkwise.core.codec.protocol import ChunkSpec


@pytest.mark.parametrize(
    ("encoding", "member"),
    [("jpeg", {"quality": 75}), ("jpeg", {"quality": 5}), ("png", {"compress_level": 9})],
)
@pytest.mark.parametrize("given", [True, False])
def test_a_picture_is_that_of_pillow_with_the_same_level(
    encoding: str, member: dict[str, int], given: bool
) -> None:
    values = np.random.default_rng(0).integers(0, 40, (1, 2, 16, 24), np.uint8)
    (level,) = member.values()
    codec = ImagePlanes(encoding, level if given else None)
    chain = prepare_chain((codec,), ChunkSpec(values.shape, values.dtype, np.zeros((), np.uint8)))
    into = BytesIO()
    options = member if given else {"quality": 75} if encoding == "jpeg" else {}
    Image.fromarray(values.reshape(32, 24)).save(into, format=encoding, **options)
    assert bytes(chain.open_encoder()(values)) == into.getvalue()
