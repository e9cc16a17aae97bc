"""Tensors of PyTorch are written, read into, and refused, whatever their type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

pytestmark = pytest.mark.slow  # PyTorch is in requirements-test-all.txt
WRITES: list[Callable[[Any, Any], object]] = [
    lambda array, values: array.write(values).result(),
    lambda array, values: array.__setitem__(..., values),
    lambda array, values: array.oindex.__setitem__(([0, 1],), values),
    lambda array, values: [array[i].write(row).result() for i, row in enumerate(values)],
]


def _types() -> dict[str, Any]:
    """Return all data types of PyTorch, by the only names that they have."""
    import torch

    found = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    return {str(dtype).removeprefix("torch."): dtype for dtype in found}


def _bits(tensor: Any) -> bytes:
    return bytes(tensor.contiguous().untyped_storage())


@pytest.mark.filterwarnings("ignore:ComplexHalf", "ignore:torch.quantize", "ignore:.*quantized tensor")
def test_each_type(tmp_path: Path) -> None:
    """A type that chunkwise has is kept bit by bit; the error for another says which it is."""
    import torch

    kept, refused = set(), set()
    for name, dtype in _types().items():
        if name not in cw.core.dtypes.data_type.dtypes:
            tensor = torch.empty((2, 3), dtype=dtype)
            for write in (cw.array, lambda values: cw.array(np.zeros((2, 3))).write(values).result()):
                with pytest.raises(TypeError, match="unsupported ScalarType"):
                    write(tensor)
            refused.add(name)
            continue
        of_bytes = torch.zeros((2, 3 * dtype.itemsize), dtype=torch.uint8)
        of_bytes[:, :: dtype.itemsize] = torch.tensor([[0, 1, 1], [1, 0, 1]])
        tensor = of_bytes.view(dtype)
        array = cw.create_array(tmp_path / name, tensor)
        assert array.dtype.name == name
        group = cw.create_group(tmp_path / f"{name}.g")
        for made in (array, cw.array(tensor), group.create_array("a", tensor)):
            for write in WRITES:
                made.write(0).result()
                write(made, tensor)
                out = torch.zeros((2, 3 * dtype.itemsize), dtype=torch.uint8).view(dtype)
                assert made.read(out=out).result() is out
                assert _bits(out) == _bits(tensor)
        kept.add(name)
    assert {"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int4", "bool", "complex64"} <= kept
    assert {"qint8", "bits8", "complex32"} <= refused


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float32"])
def test_each_kind_of_tensor(dtype: str) -> None:
    import torch

    class Own(torch.Tensor):
        pass

    plain = torch.tensor([[0.0, 1.0, 2.0], [4.0, 0.5, 8.0]]).to(_types()[dtype])
    wide = torch.zeros((4, 6)).to(plain.dtype)
    wide[::2, 1::2] = plain
    kinds = {
        "parameter": torch.nn.Parameter(plain.clone(), requires_grad=False),
        "buffer": torch.nn.Buffer(plain.clone()),
        "subclass": plain.clone().as_subclass(Own),
        "transposed": plain.T.contiguous().T,
        "strided": wide[::2, 1::2],
        "detached": torch.nn.Parameter(plain.clone()).detach(),
    }
    for tensor in kinds.values():
        array = cw.array(plain.clone())
        for write in WRITES:
            array.write(0).result()
            write(array, tensor)
            assert array.read().result().astype("f4").tolist() == plain.float().tolist()
        tensor.zero_()
        assert array.read(out=tensor).result() is tensor
        assert tensor.float().tolist() == plain.float().tolist()
    with pytest.raises(ValueError, match="share their memory"):
        array.read(out=plain[:, :1].expand(2, 3)).result()
    sparse = torch.sparse_coo_tensor([[0], [1]], plain[0, 1:2], (2, 3), check_invariants=True)
    for tensor, error in (
        (torch.nn.Parameter(plain.clone()), "requires grad"),
        (torch.empty((2, 3), dtype=plain.dtype, device="meta"), "meta"),
        (sparse, "[Ss]parse"),
    ):
        with pytest.raises((TypeError, RuntimeError), match=error):
            array.write(tensor).result()
        with pytest.raises(ValueError, match=error):
            array.read(out=tensor).result()
        assert array.read().result().astype("f4").tolist() == plain.float().tolist()
    array[...] = plain[0, 1]
    assert (array.read().result() == 1).all()
