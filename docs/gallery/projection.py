"""A projection, block by block

The maximum along z of a volume that need not fit in memory: blocks of whole chunks are read, and only the
result is kept. The next block is read while this one is processed.
"""

import numpy as np
from PIL import Image

import chunkwise

random = np.random.default_rng(7)
z, y, x = np.ogrid[0:96, 0:256, 0:384]
volume = np.zeros((96, 256, 384), "uint16")
for centre in random.uniform((10, 20, 20), (86, 236, 364), (40, 3)):
    distance = (z - centre[0]) ** 2 * 4 + (y - centre[1]) ** 2 + (x - centre[2]) ** 2
    volume = np.maximum(volume, (4000 * np.exp(-distance / random.uniform(60, 200))).astype("uint16"))
array = chunkwise.create_array("beads.zarr", volume, chunks=[32, 64, 64], shards=[96, 128, 128])

projection = np.zeros((256, 384), "uint16")
following = array[0:32].read()
for start in range(0, 96, 32):
    block = following
    if start + 32 < 96:
        following = array[start + 32 : start + 64].read()
    np.maximum(projection, block.result().max(axis=0), out=projection)
assert np.array_equal(projection, volume.max(axis=0))
Image.fromarray((projection / 16).astype("uint8")).save("picture.png")
