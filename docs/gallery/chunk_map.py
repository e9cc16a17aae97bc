"""A map of the stored chunks

Only chunks that were written take space. A circle is written into an array, row by row, and each chunk is
checked: stored chunks are light, those that read as the fill value are dark.
"""

import numpy as np
from PIL import Image

import chunkwise

array = chunkwise.create_array("circle.zarr", shape=[480, 640], dtype="uint8", chunks=[32, 32])
for row in range(60, 420):
    half = int(np.sqrt(180**2 - (row - 240) ** 2))
    array[row, 320 - half : 320 + half + 1] = 255

picture = array.read().result() // 2
for top in range(0, 480, 32):
    for left in range(0, 640, 32):
        chunk = array[top : top + 32, left : left + 32]
        if chunk.storage_statistics(query_not_stored=True).result().not_stored:
            assert not picture[top : top + 32, left : left + 32].any()
        else:
            picture[top : top + 31, left : left + 31] += 90
Image.fromarray(picture).save("picture.png")
