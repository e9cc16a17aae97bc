"""Trees of OME-Zarr, written as JSON and with zarr-python."""

import json

import numpy as np
import zarr

SIZES = {"t": 3, "c": 2, "z": 4, "y": 12, "x": 20}
TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
UNITS = {"t": "second", "z": "nanometer", "y": "nanometer", "x": "nanometer"}
SCALES = {"t": 5.0, "c": 1.0, "z": 40.0, "y": 8.0, "x": 4.0}


def write_group(path, attributes, version):
    """Write a group whose attributes are `attributes`, of OME-Zarr `version`."""
    path.mkdir(parents=True, exist_ok=True)
    if version == "0.4":
        (path / ".zgroup").write_text('{"zarr_format": 2}')
        (path / ".zattrs").write_text(json.dumps(attributes))
    else:
        ome = {"ome": {"version": version, **attributes}}
        document = {"zarr_format": 3, "node_type": "group", "attributes": ome}
        (path / "zarr.json").write_text(json.dumps(document))


def image_attributes(names, version, n_levels=2, **members):
    """Return the attributes of an image, each level of which is half of the one before along y and x."""
    axes = [{"name": n, "type": TYPES[n], **({"unit": UNITS[n]} if n in UNITS else {})} for n in names]
    datasets = []
    for k in range(n_levels):
        f = [2**k if n in "yx" else 1 for n in names]
        scale = [SCALES[n] * factor for n, factor in zip(names, f, strict=True)]
        at = [SCALES[n] * (factor - 1) / 2 for n, factor in zip(names, f, strict=True)]
        datasets.append(
            {
                "path": str(k),
                "coordinateTransformations": [
                    {"type": "scale", "scale": scale},
                    {"type": "translation", "translation": at},
                ],
            }
        )
    image = {"axes": axes, "datasets": datasets, "name": "cells"}
    if version == "0.4":
        image["version"] = "0.4"
    return {"multiscales": [image], **members}


def write_image(path, names="czyx", version="0.5", n_levels=2, dtype="uint16", **members):
    """Write an image with levels of random values, and return these."""
    write_group(path, image_attributes(names, version, n_levels, **members), version)
    values = []
    for k in range(n_levels):
        shape = [SIZES[n] // 2**k if n in "yx" else SIZES[n] for n in names]
        level = np.random.default_rng(k).integers(0, 200, shape).astype(dtype)
        array = zarr.create_array(
            path / str(k),
            shape=level.shape,
            dtype=dtype,
            chunks=tuple(min(n, 8) for n in shape),
            zarr_format=2 if version == "0.4" else 3,
            chunk_key_encoding={"name": "v2", "separator": "/"} if version == "0.4" else None,
        )
        array[...] = level
        values.append(level)
    return values


def write_plate(path, rows, columns, version="0.5", fields=2, wells=None):
    """Write the documents of a plate; `wells` says for which wells there is anything below it."""
    letters = [chr(ord("A") + i) for i in range(rows)]
    plate = {
        "name": "screen",
        "rows": [{"name": r} for r in letters],
        "columns": [{"name": str(c + 1)} for c in range(columns)],
        "wells": [
            {"path": f"{r}/{c + 1}", "rowIndex": i, "columnIndex": c}
            for i, r in enumerate(letters)
            for c in range(columns)
        ],
        "field_count": fields,
    }
    if version == "0.4":
        plate["version"] = "0.4"
    write_group(path, {"plate": plate}, version)
    for well in wells or ():
        write_group(path / well.split("/")[0], {}, version)
        images = {"images": [{"path": str(f), "acquisition": 0} for f in range(fields)]}
        write_group(path / well, {"well": images}, version)
        for field in range(fields):
            write_image(path / well / str(field), "cyx", version)
