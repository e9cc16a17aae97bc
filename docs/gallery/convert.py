"""From N5 to Zarr v3

A volume in N5, with x first as usual there, becomes a Zarr v3 array in shards. The copy is checked key by
key, and compared with the source. The picture shows one plane of it.
"""

import numpy as np
from PIL import Image

import chunkwise

x, y, z = np.mgrid[0:256, 0:192, 0:32]
cells = np.sin(x / 11) * np.sin(y / 13) * np.cos(z / 6)
volume = (900 + 800 * cells + np.random.default_rng(0).normal(0, 60, cells.shape)).clip(0).astype("uint16")
chunkwise.create_array("cells.n5", volume, chunks=[64, 64, 16], codec="gzip", format="n5")

chunkwise.copy(
    "cells.n5",
    "cells.zarr",
    format="zarr3",
    chunks=[32, 32, 16],
    shards=[128, 128, 32],
    codec="zstd:3",
    verify=True,
)
assert chunkwise.diff("cells.n5", "cells.zarr") == []

plane = chunkwise.open("cells.zarr").result()[:, :, 4].read().result()
Image.fromarray((plane.T / 8).clip(0, 255).astype("uint8")).resize((512, 384)).save("picture.png")
