"""Every member of an HDF5 file, as h5py tells it: what a conversion has to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

SPECIFICATIONS = "specifications"


def fill(file: h5py.File, group: str) -> None:
    """Put what no container knows into a file: types, attributes, links, references, labels, scales."""
    made = file.create_group(group)
    made.attrs["text"] = "ü"
    made.attrs["bytes"] = np.array([b"a", b"bc"], "S2")
    made.attrs["some words"] = ["a", "ü", ""]
    made.attrs["flag"] = True
    made.attrs["flags"] = np.array([True, False])
    made.attrs["small"] = np.uint8(7)
    made.attrs["many"] = np.arange(6, dtype="f4").reshape(2, 3)
    made.attrs["empty"] = np.empty(0, "i2")
    made.attrs["not a number"] = np.float32("nan")
    made.attrs["record"] = np.array((1, 2.5), [("a", "i2"), ("b", "f8")])
    numbers = made.create_dataset("numbers", data=np.arange(24, dtype="i2").reshape(6, 4), chunks=(2, 4))
    numbers.dims[0].label = "time"
    for name, value in {
        "big": np.array([1, 2**40], ">i8"),
        "halves": np.array([1.5, np.nan, -np.inf], "f2"),
        "complex": np.array([1 + 2j, -3j], "c8"),
        "truth": np.array([[True], [False]]),
        "nothing": np.empty((0, 3)),
        "one": np.float32(0.1),
        "records": np.array([(1, 2.5), (4, 5.5)], [("a", "i2"), ("b", "f4")]),
    }.items():
        made[name] = value
    made["big"].attrs["CLASS"] = "mine"
    made["big"].attrs["NAME"] = "a name"
    made["deep/below/text"] = "z"
    made.create_dataset("words", data=["é", "", "long text"], dtype=h5py.string_dtype())
    made.create_dataset("ascii", data=[b"a", b"bc"], dtype=h5py.string_dtype("ascii"))
    made.create_dataset("latin", data=np.array([b"caf\xe9", b""], "S8"))
    made.create_dataset("table", data=[("é", 1)], dtype=[("word", h5py.string_dtype()), ("n", "i4")])
    made.attrs["a ref"] = numbers.ref
    made.attrs["some refs"] = np.array([numbers.ref, made.ref], h5py.ref_dtype)
    made.attrs["roi"] = numbers.regionref[1:3, ::2]
    made.create_dataset("refs", data=[made.ref, numbers.ref], dtype=h5py.ref_dtype)
    made.create_dataset("ref", data=numbers.ref, dtype=h5py.ref_dtype)
    made.create_dataset("region", data=numbers.regionref[1:3], dtype=h5py.regionref_dtype)
    made.create_dataset("regions", (2,), h5py.regionref_dtype)[:] = [
        numbers.regionref[4:6, 1],
        numbers.regionref[np.arange(24).reshape(6, 4) % 5 == 0],
    ]
    rows = made.create_dataset("rows", (2,), [("word", h5py.string_dtype()), ("to", h5py.ref_dtype)])
    rows[0], rows[1] = ("a", numbers.ref), ("ü", made.ref)
    made["soft"] = h5py.SoftLink(f"/{group}/deep/below")
    made["axis"] = np.arange(6.0)
    made["axis"].make_scale("seconds")
    numbers.dims[0].attach_scale(made["axis"])
    file.attrs["extra"] = 5


def members(path: Path) -> dict[str, Any]:
    """Return each object and attribute below its name, references as what they lead to."""
    out: dict[str, Any] = {}
    with h5py.File(path) as file:

        def told(value: Any) -> Any:
            if isinstance(value, h5py.RegionReference):
                target = file[value]
                return ("region", target.name, np.sort(target[value], axis=None).tolist())
            if isinstance(value, h5py.Reference):
                return ("reference", file[value].name)
            if isinstance(value, np.ndarray):
                return [told(item) for item in value]
            if isinstance(value, np.void) and value.dtype.names:
                return tuple(told(item) for item in value)
            return repr(value.item() if isinstance(value, np.generic) else value)

        def visit(at: str, node: Any) -> None:
            for name in node.attrs:
                out[f"{at} @{name}"] = told(node.attrs[name])
            if isinstance(node, h5py.Dataset):
                kind = "text" if h5py.check_string_dtype(node.dtype) else node.dtype.newbyteorder("=")
                out[at] = (kind, node.shape, told(node[()]))
                return
            out[at] = "group"
            for name in node:
                link = node.get(name, getlink=True)
                if isinstance(link, h5py.HardLink) and name != SPECIFICATIONS:
                    visit(f"{at}/{name}", node[name])
                elif isinstance(link, h5py.SoftLink):
                    out[f"{at}/{name}"] = ("link", file[link.path].name)

        visit("", file)
    return {name: value for name, value in out.items() if not name.endswith("@.specloc")}
