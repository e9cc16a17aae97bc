"""What families of random programs are made of: shapes, values, indices and dimension expressions."""

from __future__ import annotations

from random import Random

__all__ = ["DRIVERS", "SMALL", "TYPES", "UNITS", "expression", "index_of", "shape_of", "values_of"]

TYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
]
SMALL = ("int4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz")
UNITS = ("'4 nm'", "'um'", "None", "(5, 's')", "''", "'2.5e-3 m'")
DRIVERS = ("zarr3", "zarr", "n5")


def shape_of(r: Random, rank: int, low: int = 1, high: int = 6) -> list[int]:
    return [r.randint(low, high) for _ in range(rank)]


def values_of(r: Random, shape: list[int], dtype: str) -> str:
    n = 1
    for size in shape:
        n *= size
    numbers = [r.choice((0, 1, 2, 3, 5, 7, 100)) for _ in range(n)]
    return f"np.array({numbers}, 'f8').reshape({shape}).astype(ts.{dtype}.numpy_dtype)"


def index_of(r: Random, rank: int) -> str:
    """Return a NumPy-like index, mostly within bounds of arrays of extent 6."""
    terms = []
    for _ in range(r.randint(0, rank)):
        a, b = sorted((r.randint(0, 5), r.randint(0, 6)))
        terms.append(
            r.choice(
                (str(a), f"{a}:{b}", f"{a}:", f":{b}", ":", f"{a}:{b}:2", "None", "...", f"[{a},{b % 5}]")
            )
        )
    return ",".join(terms) or "..."


def expression(r: Random, rank: int) -> str:
    """Return a dimension expression."""
    dims = r.sample(range(rank), r.randint(1, rank)) if rank else []
    if not dims:
        return "ts.d[()]"
    n, chosen = len(dims), ",".join(map(str, dims))
    one = [
        f".translate_by[{r.randint(-3, 3)}]",
        f".translate_to[{r.randint(-3, 3)}]",
        f".stride[{r.choice((1, 2, 3, -1, -2))}]",
        f".label[{','.join(repr(x) for x in r.sample('abcdef', n))}]",
        f".transpose[{r.randint(0, rank - n)}:]" if n < rank else ".transpose[:]",
        ".diagonal",
        f"[{r.randint(0, 3)}:{r.randint(2, 6)}]",
        f"[{r.randint(0, 4)}]",
        f".mark_bounds_implicit[{r.choice(('True', 'False'))}]",
    ]
    return f"ts.d[{chosen}]{r.choice(one)}"
