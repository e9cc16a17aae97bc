"""From planes to columns

A camera writes one plane after the other. To read each pixel over time, you need chunks that are long in
time. The picture has time from left to right: one row of the film.
"""

import numpy as np
from PIL import Image

import chunkwise

time, row, column = np.ogrid[0:300, 0:64, 0:200]
wave = np.sin((column - 0.6 * time) / 9) * np.exp(-(((row - 32) / 20) ** 2))
film = (120 + 100 * wave).astype("uint8")
chunkwise.create_array("film.zarr", film, chunks=[1, 64, 200])

plan = chunkwise.plan_copy("film.zarr", "columns.zarr", chunks=[300, 16, 20], memory="4 MB")
chunkwise.copy("film.zarr", "columns.zarr", chunks=[300, 16, 20], plan=plan)

before, after = (chunkwise.open(path).result()[:, 32, 100] for path in ("film.zarr", "columns.zarr"))
assert (before.explain().requests.n_chunks, after.explain().requests.n_chunks) == (300, 1)
assert np.array_equal(before, after)

kymograph = chunkwise.open("columns.zarr").result()[:, 32, :].read().result()
Image.fromarray(kymograph.T).resize((600, 400)).save("picture.png")
