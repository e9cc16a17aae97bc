"""What is measured: formats, codecs and chunk sizes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["CELLS", "DISK", "QUICK", "Cell", "camera_data"]


class Cell(NamedTuple):
    """One array to be read and written.

    Attributes
    ----------
    driver : str
        ``zarr3`` or ``n5``.
    codec : str
        Name of the compressor.
    edge : int
        Extent of a chunk, or shard, in each dimension.
    inner : int or None
        That of an inner chunk.
    """

    driver: str
    codec: str
    edge: int
    inner: int | None = None

    @property
    def name(self) -> str:
        """``zarr3 zstd 128/32``."""
        return f"{self.driver} {self.codec} {self.edge}" + (f"/{self.inner}" if self.inner else "")

    def spec(self, path: str, edge: int) -> dict[str, Any]:
        """Return the spec that makes the array at `path`, a cube with `edge` elements along each side."""
        chunk = [self.edge] * 3
        metadata: dict[str, Any]
        if self.driver == "n5":
            metadata = {"blockSize": chunk, "compression": _N5[self.codec], "dimensions": [edge] * 3}
            metadata["dataType"] = "uint16"
        else:
            little: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
            codecs = [little, *_ZARR[self.codec]]
            if self.inner is not None:
                configuration = {
                    "chunk_shape": [self.inner] * 3,
                    "codecs": codecs,
                    "index_codecs": [little, {"name": "crc32c"}],
                }
                codecs = [{"name": "sharding_indexed", "configuration": configuration}]
            metadata = {
                "shape": [edge] * 3,
                "data_type": "uint16",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
                "codecs": codecs,
            }
        return {"driver": self.driver, "kvstore": {"driver": "file", "path": path}, "metadata": metadata}


_LZ4 = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2, "blocksize": 0}
_ZARR: dict[str, list[Any]] = {
    "raw": [],
    "zstd": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    "gzip": [{"name": "gzip", "configuration": {"level": 1}}],
    "blosc": [{"name": "blosc", "configuration": _LZ4}],
}
_N5: dict[str, dict[str, Any]] = {
    "raw": {"type": "raw"},
    "gzip": {"type": "gzip", "level": 1},
    "blosc": {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
}

CELLS = [
    *[Cell("zarr3", codec, edge) for codec in ("raw", "zstd", "gzip", "blosc") for edge in (16, 32, 64, 128)],
    Cell("zarr3", "zstd", 128, 16),
    Cell("zarr3", "zstd", 128, 32),
    *[Cell("n5", codec, 64) for codec in ("raw", "gzip", "blosc")],
]
QUICK = [
    *[Cell("zarr3", codec, edge) for codec in ("raw", "zstd", "blosc") for edge in (16, 32, 64)],
    Cell("zarr3", "gzip", 64),
    Cell("zarr3", "zstd", 128, 32),
    Cell("n5", "blosc", 64),
]
# Writes that wait for the disk take long and measure the disk, so a few are enough.
DISK = ["zarr3 raw 64", "zarr3 zstd 32", "zarr3 zstd 64", "zarr3 blosc 64", "zarr3 blosc 128", "n5 gzip 64"]
DISK += ["zarr3 zstd 128/32"]


def camera_data(edge: int) -> np.ndarray:
    """Return photon counts on blurred nuclei and a dark, noisy background: a cube of uint16."""
    if edge > 512:  # of eight equal parts, since drawing takes long
        return np.tile(camera_data(edge // 2), (2, 2, 2))
    rng = np.random.default_rng(7)
    light = np.full((edge,) * 3, 12.0, np.float32)
    for _ in range(edge**3 // 40_000):
        centre = rng.uniform(0, edge, 3)
        sigma = rng.uniform(4, 9, 3)
        box = [
            slice(max(0, int(c - 3 * s)), min(edge, int(c + 3 * s) + 1))
            for c, s in zip(centre, sigma, strict=True)
        ]
        axes = np.ogrid[tuple(box)]
        distance = sum(((x - c) / s) ** 2 for x, c, s in zip(axes, centre, sigma, strict=True))
        light[tuple(box)] += (rng.uniform(80, 900) * np.exp(-0.5 * distance)).astype(np.float32)
    out = np.empty(light.shape, np.uint16)
    for plane, mean in zip(out, light, strict=True):
        plane[...] = rng.poisson(mean)
    return out
