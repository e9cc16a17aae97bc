"""Many writers of one array

Eight threads write blocks of an image that are not aligned with its chunks. None of them waits for another,
and no update is lost. The same works with processes and machines.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

import chunkwise

array = chunkwise.create_array("mandelbrot.zarr", shape=[400, 600], dtype="uint8", chunks=[64, 64])


def write(corner: tuple[int, int]) -> None:
    """Compute one block of 50 × 75 pixels and write it: it lies across up to six chunks."""
    top, left = corner
    y, x = np.mgrid[top : top + 50, left : left + 75]
    c = (x - 400) / 200 + 1j * (y - 200) / 200
    z, steps = np.zeros_like(c), np.zeros(c.shape, "uint8")
    for _ in range(60):
        inside = np.abs(z) < 2
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    array[top : top + 50, left : left + 75] = steps * 4


with ThreadPoolExecutor(8) as pool:
    list(pool.map(write, [(top, left) for top in range(0, 400, 50) for left in range(0, 600, 75)]))
picture = array.read().result()
assert picture.all()
Image.fromarray(255 - picture).save("picture.png")
