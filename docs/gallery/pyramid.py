"""An image pyramid as OME-Zarr

Each level has half as many pixels along x and y. Viewers read the level that fits the screen. The picture
shows the levels side by side.
"""

import numpy as np
from PIL import Image

import chunkwise

y, x = np.mgrid[0:512, 0:512] - 256.0
rings = (128 + 120 * np.cos(np.hypot(x, y) ** 1.5 / 60)).astype("uint8")
chunkwise.downsample_pyramid(
    chunkwise.array(rings),
    "rings.ome.zarr",
    axes=["y", "x"],
    units=["1 um", "1 um"],
    levels=3,
    chunks=[64, 64],
).result()

image = chunkwise.open_multiscale("rings.ome.zarr")
sheet, left = np.full((512, 990), 32, "uint8"), 0
for level in image.levels:
    height, width = level.shape
    sheet[:height, left : left + width] = level.read().result()
    left += width + 10
Image.fromarray(sheet).save("picture.png")
