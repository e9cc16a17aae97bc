"""A mosaic of overlapping tiles

Twelve overlapping tiles of a microscope become one array without being copied: each position is read from the
last tile that covers it. The tiles differ in brightness, so you can see them.
"""

import numpy as np
from PIL import Image

import chunkwise

y, x = np.mgrid[0:400, 0:620]
scene = 110 + 60 * np.sin(x / 17) * np.cos(y / 23) + 40 * np.sin(np.hypot(x - 300, y - 200) / 8)
tiles = []
for number in range(12):
    top, left = 120 * (number // 4), 140 * (number % 4)
    tile = scene[top : top + 160, left : left + 200] * (0.85 + 0.02 * (number % 5))
    stored = chunkwise.create_array(f"tile{number}.zarr", tile.astype("uint8"), chunks=[80, 100])
    tiles.append(stored.translate_to[top, left])

mosaic = chunkwise.overlay(tiles)
assert mosaic.shape == (400, 620)
Image.fromarray(mosaic.read().result()).save("picture.png")
