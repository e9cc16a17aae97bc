"""A recording that grows

The length of a recording isn't known in advance. Each block is appended, and readers see it as soon as it is
stored. The picture has one channel per row.
"""

import numpy as np
from PIL import Image

import chunkwise

random = np.random.default_rng(1)
recording = chunkwise.create_array(
    "recording.zarr", shape=[0, 32], dtype="int16", chunks=[500, 32], codec="blosc:zstd:5:bitshuffle"
)
for second in range(12):
    time = second + np.arange(500)[:, None] / 500
    spikes = (random.uniform(size=(500, 32)) > 0.995) * 3000
    block = 300 * np.sin(2 * np.pi * (time + np.arange(32) / 32)) + random.normal(0, 60, (500, 32)) + spikes
    n = recording.shape[0]
    recording = recording.resize(exclusive_max=[n + 500, 32], expand_only=True).result()
    recording[n:] = block.astype("int16")
assert recording.shape == (6000, 32)

seconds = chunkwise.open("recording.zarr").result()[2000:3000].read().result()
grey = ((seconds.T + 600) / 12).clip(0, 255).astype("uint8")
Image.fromarray(grey.repeat(10, axis=0)).save("picture.png")
