"""Hypothesis strategies for data types and for elements of them, as bits."""

import numpy as np
from hypothesis import strategies as st

from chunkwise.core.dtypes.data_type import DataType, dtypes

NUMERIC = [n for n, d in dtypes.items() if d.kind in ("bool", "int", "float", "complex")]
UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]

numeric = st.sampled_from([dtypes[n] for n in NUMERIC])
sized = st.builds(lambda k, n: DataType(f"{k}{n}"), st.sampled_from("SUV"), st.integers(1, 9))
times = st.builds(
    lambda k, n, u: DataType(f"{k}[{n}{u}]"),
    st.sampled_from(["datetime64", "timedelta64"]),
    st.integers(1, 25),
    st.sampled_from(UNITS),
)
simple = st.one_of(numeric, sized, times)


def structs(member=simple, shapes=True):
    shape = (
        st.one_of(st.just([]), st.lists(st.integers(1, 3), min_size=1, max_size=2)) if shapes else st.just([])
    )
    field = st.tuples(st.text("abcxyz_é", min_size=1, max_size=4), member, shape)

    def build(fields):
        nested = [(n, d.memory_dtype, tuple(s)) if s else (n, d.memory_dtype) for n, d, s in fields]
        return DataType(np.dtype(nested))

    return st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f[0]).map(build)


fixed_size = st.one_of(simple, structs(), structs(structs()))


@st.composite
def element(draw, dtype):
    """An array of shape () of any bits that the type can have."""
    memory = dtype.memory_dtype
    if dtype.kind == "struct":
        out = np.zeros((), memory)
        for name in memory.names:
            base, shape = memory[name].subdtype or (memory[name], ())
            flat = [draw(element(DataType(base)))[()] for _ in range(int(np.prod(shape)))]
            part = np.empty(len(flat), base)
            for i, value in enumerate(flat):
                part[i] = value
            out[name] = part.reshape(shape)
        return out
    if dtype.kind == "bool":
        return np.array(draw(st.booleans()))
    if dtype.kind == "text":
        return np.array(draw(st.text(st.characters(codec="utf-8"), max_size=memory.itemsize // 4)), memory)
    raw = draw(st.binary(min_size=memory.itemsize, max_size=memory.itemsize))
    special = {
        "float": [0, 1.5, -0.0, np.nan, np.inf, -np.inf, 0.1, 1e300, 3e-320],
        "complex": [1 - 2j, np.nan],
    }
    if dtype.kind in special and draw(st.booleans()):
        with np.errstate(all="ignore"):
            return np.array(draw(st.sampled_from(special[dtype.kind]))).astype(memory)
    bits = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}.get(dtype.name)
    bits = 6 if dtype.name.startswith("float6_") else bits
    if bits:
        low = raw[0] & (1 << bits) - 1
        if dtype.name[0] == "i" and low >> bits - 1:
            low |= 0xFF << bits & 0xFF
        raw = bytes([low])
    return np.frombuffer(raw, memory).reshape(()).copy()
