"""Program of test_libraries_on_tensorstore: one of two applications by a library named tensorstore.

    python applications.py {chunkwise,tensorstore} FOLDER {neuroglancer,webknossos}

Prints a JSON object with the outcome of each step: "ok", "wrong values" or the error.
"""

import io
import sys
import zlib
from pathlib import Path

library, folder, application = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
if library == "chunkwise":
    import chunkwise

    chunkwise.install_as_tensorstore()

import numpy as np  # noqa: E402 - the library it is to find comes first
import tensorstore as ts  # noqa: E402
from steps import report  # noqa: E402

RNG = np.random.default_rng(0)


def neuroglancer_volume():
    import neuroglancer

    values = RNG.integers(0, 99, (6, 7, 8), dtype="u2")
    array = ts.open(
        {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/v/"}},
        create=True,
        dtype="uint16",
        shape=[6, 7, 8],
        dimension_units=["4 nm", "4 nm", "40 nm"],
        domain=ts.IndexDomain(labels=["x", "y", "z"]),
    ).result()
    array.write(values).result()
    volume = neuroglancer.LocalVolume(array, volume_type="image")
    data, _ = volume.get_encoded_subvolume("npz", np.array([1, 2, 3]), np.array([4, 6, 8]), scale_key="1,1,1")
    found = np.load(io.BytesIO(zlib.decompress(data)))
    told = volume.info()
    return np.array_equal(found, values[1:4, 2:6, 3:8]) and told["dataType"] == "uint16"


def neuroglancer_annotations():
    import neuroglancer
    from neuroglancer import read_precomputed_annotations, write_annotations

    space = neuroglancer.CoordinateSpace(names=["x", "y", "z"], units="nm", scales=[4, 4, 40])
    writer = write_annotations.AnnotationWriter(
        coordinate_space=space,
        annotation_type="point",
        relationships=["segment"],
        properties=[neuroglancer.AnnotationPropertySpec(id="size", type="float32")],
    )
    for i in range(40):
        writer.add_point([i, 2 * i, 3], id=i + 1, size=i / 2, segment=[7] if i % 2 else [8, 9])
    path = folder / "points"
    writer.write(path)
    reader = read_precomputed_annotations.AnnotationReader(f"file://{path}/")
    some = [reader.by_id[i + 1] for i in (0, 5, 39)]
    same = [list(a.point) for a in some] == [[0, 0, 3], [5, 10, 3], [39, 78, 3]]
    same &= len(reader.relationships["segment"][7]) == 20 and 8 in reader.relationships["segment"]
    inside = reader.get_within_spatial_bounds(lower_bound=[0, 0, 0], upper_bound=[10, 30, 5])
    return same and len(list(inside)) >= 10 and 99 not in reader.by_id


def webknossos(data_format):
    def run():
        import webknossos as wk

        values = RNG.integers(0, 255, (60, 50, 40), dtype="u1")
        dataset = wk.Dataset(folder / f"wk-{data_format}", voxel_size=(11, 11, 24))
        layer = dataset.add_layer("color", wk.COLOR_CATEGORY, data_format=data_format, dtype="uint8")
        mag = layer.add_mag(1, chunk_shape=(32, 32, 32), shard_shape=_shards(data_format, (64, 64, 64)))
        mag.write(values, absolute_offset=(0, 0, 0), allow_resize=True, allow_unaligned=True)
        mag.write(values[:9], absolute_offset=(64, 3, 5), allow_resize=True, allow_unaligned=True)
        again = wk.Dataset.open(folder / f"wk-{data_format}").get_layer("color").get_mag(1)
        same = np.array_equal(again.read(absolute_offset=(0, 0, 0), size=(60, 50, 40))[0], values)
        same &= np.array_equal(again.read(absolute_offset=(64, 3, 5), size=(9, 50, 40))[0], values[:9])
        layer.downsample(coarsest_mag=wk.Mag(2), sampling_mode="isotropic")
        return same and layer.get_mag(2).read().any()

    return run


def _shards(data_format, shape):
    return shape if data_format == "zarr3" else None


def webknossos_copy():
    import webknossos as wk

    dataset = wk.Dataset.open(folder / "wk-zarr3")
    copied = dataset.copy_dataset(
        folder / "wk-copy", data_format="zarr", chunk_shape=(32, 32, 32), shard_shape=(32, 32, 32)
    )
    one, two = (d.get_layer("color").get_mag(1).read() for d in (dataset, copied))
    return np.array_equal(one, two)


STEPS = {
    "neuroglancer": {
        "a volume in layers of a viewer": neuroglancer_volume,
        "annotations written and read": neuroglancer_annotations,
    },
    "webknossos": {
        **{f"dataset of {name}": webknossos(name) for name in ("zarr3", "zarr")},
        "copy": webknossos_copy,
    },
}


if __name__ == "__main__":
    report(ts, STEPS[application])
