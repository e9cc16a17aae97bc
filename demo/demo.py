"""The main job on real input, in under two minutes: write N5, read another tool's N5, convert, check, view.

Run it with ``make demo``.  Everything it makes lies in ``demo-output/``.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import time
import zipfile
from pathlib import Path

import numpy as np

import chunkwise as cw
from chunkwise.cli.main import main as chunkwise

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "demo-output"
FIXTURE = HERE.parent / "tests" / "n5" / "fixtures" / "java.n5.zip"

SHAPE = (250, 220, 130)  # x, y, z: no multiple of the block size, so there are edge blocks
BLOCK = [64, 64, 32]
COMPRESSIONS = {
    "raw": {"type": "raw"},
    "gzip": {"type": "gzip", "level": 1},
    "blosc": {"type": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 0},
    "zstd": {"type": "zstd", "level": 3},
    "lz4": {"type": "lz4", "blockSize": 65536},
}


def main() -> int:
    """Run the demonstration; return the exit status."""
    started = time.perf_counter()
    if OUTPUT.exists():
        shutil.rmtree(OUTPUT)
    OUTPUT.mkdir()
    volume = microscope_volume(SHAPE)
    container = OUTPUT / "volume.n5"

    heading("1. Write a volume as N5, the way a microscope pipeline does")
    cw.create_container(container)
    for name, compression in COMPRESSIONS.items():
        array = cw.open(
            {
                "driver": "n5",
                "kvstore": {"driver": "file", "path": str(container / name / "s0")},
                "metadata": {
                    "blockSize": BLOCK,
                    "compression": compression,
                    "axes": ["x", "y", "z"],
                    "units": ["um", "um", "um"],
                    "resolution": [0.4, 0.4, 1.0],
                    "acquisition": {"objective": "25x/1.05", "channel": "GFP"},
                },
            },
            create=True,
            dtype=cw.uint16,
            shape=SHAPE,
        ).result()
        array.write(volume).result()
        stored = sum(f.stat().st_size for f in (container / name).rglob("*") if f.is_file())
        print(f"   {name:6s} {volume.nbytes / stored:5.2f}x smaller   {container / name / 's0'}")

    heading("2. Read an N5 container that n5-java wrote")
    with zipfile.ZipFile(FIXTURE) as archive:
        archive.extractall(OUTPUT)
    java = cw.open(str(OUTPUT / "java.n5" / "matrix" / "gzip" / "uint16")).result()
    print("  ", java.dtype, java.domain)
    print("  ", np.asarray(java).tolist())

    heading("3. Convert to Zarr v3: shards of compressed chunks, with a progress bar")
    target = OUTPUT / "volume.zarr"
    status = chunkwise(
        [
            "cp",
            str(container / "gzip" / "s0"),
            str(target),
            *("--format", "zarr3", "--shard", "128,128,64", "--chunk", "32,32,32"),
            *("--codec", "zstd:5", "--verify"),
        ]
    )
    if status:
        return status

    heading("4. Compare every element and the checksums")
    copy = cw.open(str(target)).result().read().result()
    for name in COMPRESSIONS:
        array = cw.open(str(container / name / "s0")).result().read().result()
        same = np.array_equal(array, volume) and np.array_equal(copy, volume)
        print(f"   {name:6s} {sha256(array)}  {'equal' if same else 'DIFFERENT'}")
        if not same:
            return 1
    print(f"   zarr3  {sha256(copy)}  equal")

    heading("5. What is there")
    for arguments in (["info", str(target)], ["tree", str(container)]):
        status = chunkwise(arguments)
        if status:
            return status

    heading("6. Three orthogonal slices as a picture")
    picture = OUTPUT / "slices.png"
    status = chunkwise(["slice", str(target), "--orthogonal", "--png", str(picture)])
    if status:
        return status

    heading(f"Done in {time.perf_counter() - started:.0f} s")
    print(f"   N5 volume          {container}")
    print(f"   n5-java container  {OUTPUT / 'java.n5'}")
    print(f"   Zarr v3 copy       {target}")
    print(f"   picture            {picture}")
    print("   Try next:")
    print(f"     .venv/bin/chunkwise verify {target.relative_to(OUTPUT.parent)}")
    print(f"     .venv/bin/chunkwise attrs {target.relative_to(OUTPUT.parent)}")
    print(f"     .venv/bin/chunkwise slice {target.relative_to(OUTPUT.parent)} --region '100:110,110,60:70'")
    return 0


def microscope_volume(shape: tuple[int, ...]) -> np.ndarray:
    """Make camera-like data: photon counts on a few hundred blurred nuclei and a dark, noisy background."""
    rng = np.random.default_rng(7)
    light = np.full(shape, 12.0, np.float32)
    for _ in range(220):
        centre = [rng.uniform(0, n) for n in shape]
        sigma = rng.uniform(4, 9, 3) * (1, 1, 0.5)
        box = [
            slice(max(0, int(c - 3 * s)), min(n, int(c + 3 * s) + 1))
            for c, s, n in zip(centre, sigma, shape, strict=True)
        ]
        axes = np.ogrid[tuple(box)]
        distance = sum(((x - c) / s) ** 2 for x, c, s in zip(axes, centre, sigma, strict=True))
        light[tuple(box)] += (rng.uniform(80, 900) * np.exp(-0.5 * distance)).astype(np.float32)
    counts = rng.poisson(light).astype(np.uint16)
    counts[:, :, :8] = 0  # the stage was still moving: these blocks are empty and need not be stored
    return counts


def sha256(array: np.ndarray) -> str:
    """Checksum of the values in C order, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(array, array.dtype.newbyteorder("<"))).hexdigest()[:16]


def heading(text: str) -> None:
    """Print a section title."""
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
