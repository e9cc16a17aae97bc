"""Labels, downsampled as labels

The mean of labels 3 and 5 is not label 4. The most frequent label of each cell stays a label, at every
level. Labels compress to almost nothing.
"""

import numpy as np
from PIL import Image

import chunkwise

random = np.random.default_rng(4)
points = random.uniform(0, 512, (60, 2))
y, x = np.mgrid[0:512, 0:512]
nearest = np.argmin([np.hypot(y - a, x - b) for a, b in points], axis=0)
labels = (nearest + 1).astype("uint64")

array = chunkwise.create_array("cells.zarr", labels, chunks=[128, 128], codec="zstd:5")
small = chunkwise.downsample(array, [4, 4], "mode").read().result()
assert set(np.unique(small)) <= set(np.unique(labels))

colours = random.integers(40, 256, (61, 3)).astype("uint8")
both = np.concatenate([labels, small.repeat(4, axis=0).repeat(4, axis=1)], axis=1)
Image.fromarray(colours[both.astype(int)]).save("picture.png")
