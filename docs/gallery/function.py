"""An array behind a function

This array of 10^12 elements isn't stored: a function computes the chunks that are read. It is indexed,
downsampled and copied like any other.
"""

import numpy as np
from PIL import Image

import chunkwise


def compute(domain: chunkwise.IndexDomain, values: np.ndarray, parameters: object) -> None:
    """Fill in one chunk."""
    y, x = np.meshgrid(*(np.arange(d.inclusive_min, d.exclusive_max) for d in domain), indexing="ij")
    values[...] = (x ^ y) & 255


endless = chunkwise.virtual_chunked(
    compute,
    dtype=chunkwise.uint8,
    shape=[1_000_000, 1_000_000],
    chunk_layout=chunkwise.ChunkLayout(read_chunk_shape=[128, 128]),
)
part = endless[500_000:500_384, 700_100:700_740]
copy = chunkwise.create_array("part.zarr", shape=part.shape, dtype="uint8", chunks=[64, 64])
copy.write(part).result()
stored = copy.read().result()
assert stored[0, 0] == (500_000 ^ 700_100) & 255
Image.fromarray(stored).save("picture.png")
