"""Names of other libraries: each error says what to write instead, which is run here; the page lists all."""

from __future__ import annotations

import inspect
import pickle
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from importlib import import_module
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from types import FunctionType
from typing import Any

import dask.array
import h5py
import numpy as np
import pynwb
import pytest
import xarray
import zarr
from hdmf.common import DynamicTable, VectorData, get_manager
from packaging.requirements import Requirement

import chunkwise
from chunkwise.core.base.foreign_names import FOREIGN_NAMES, Instead
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError
from chunkwise.images.multiscale.metadata import Window

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
ROWS = [(owner, name) for owner, names in FOREIGN_NAMES.items() for name in names]
CALLED = {
    "TensorStore": "array", "Group": "group", "Attributes": "attrs", "Future": "future",
    "MultiscaleImage": "image", "Plate": "plate", "Well": "well", "ImageCollection": "collection",
    "LazyDataset": "dataset", "N5Blocks": "blocks",
}  # fmt: skip
"""What the code in the table calls an object of each class."""
CLASSES = ("chunkwise", *CALLED)
FUNCTIONS = {
    "create_group": [chunkwise.create_group],
    "copy": [chunkwise.copy, chunkwise.plan_copy, chunkwise.copy_tree],
    "open": [chunkwise.open],
    "open_array": [chunkwise.open_array],
    "open_group": [chunkwise.open_group],
    "open_multiscale": [chunkwise.open_multiscale],
    "read": [chunkwise.read],
}
"""By the owner of their rows; an argument that a row says to write is tried with the first."""
OTHER_FUNCTIONS = {
    "create_n5_blocks": [chunkwise.create_n5_blocks],
    "diff": [chunkwise.diff],
    "downsample_pyramid": [chunkwise.downsample_pyramid],
    "from_dask": [chunkwise.from_dask],
    "migrate": [chunkwise.migrate],
    "open_n5_blocks": [chunkwise.open_n5_blocks],
    "serve": [chunkwise.serve],
    "stack": [chunkwise.stack, chunkwise.concat],
    "store": [chunkwise.store],
    "to_dask": [chunkwise.to_dask],
    "verify": [chunkwise.verify],
    "write_dataset": [chunkwise.xarray.write_dataset, chunkwise.xarray.write_datatree],
}
"""Those whose rows name parameters, which are not tried."""
PUBLIC_MODULES = ["", ".dask", ".hdmf", ".ocdbt", ".xarray", ".z5py", ".zarr"]
VALUES = np.arange(48.0).reshape(8, 6)
WRITERS: list[Callable[[dict[str, Any], Any], Any]] = [
    lambda scope, value: scope["group"].__setitem__("new", value),
    lambda scope, value: scope["group"].create_array("new", value),
    lambda scope, value: scope["group"].create_dataset("new", data=value),
    lambda scope, value: scope["group"].require_dataset("new", (2,), "U2", data=value),
    lambda scope, value: chunkwise.create_array(scope["path"], value),
    lambda scope, value: scope["array"].write(value).result(),
    lambda scope, value: scope["array"].__setitem__(0, value),
    lambda scope, value: chunkwise.array(value),
    lambda scope, value: chunkwise.copy(value, scope["path"]),
    lambda scope, value: chunkwise.downsample_pyramid(value, scope["path"]),
    lambda scope, value: chunkwise.stack([value, value]),
]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trees that tests have copies of, and a plate with one well, whose field has labels and a channel."""
    path = tmp_path_factory.mktemp("trees")
    group = chunkwise.open_group(path / "g.zarr", mode="w", format="zarr3")
    group.create_array("a", VALUES, chunks=(4, 3), dimension_names=["y", "x"])
    chunkwise.create_group(path / "s.zarr", format="zarr2").create_array("b", VALUES)
    chunkwise.create_array(path / "there.zarr", VALUES)
    plate = {"rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": [{"path": "A/1"}]}
    group = chunkwise.create_group(
        path / "plate.zarr", attributes={"ome": {"version": "0.5", "plate": plate}}
    )
    well = {"version": "0.5", "well": {"images": [{"path": "0"}]}}
    field = f"{group.create_group('A/1', attributes={'ome': well}).location.url}0"
    chunkwise.downsample_pyramid(VALUES, field, levels=1).result()
    chunkwise.edit_image(field, channels=["DAPI"])
    labels = VALUES.astype("u1")
    chunkwise.downsample_pyramid(labels, f"{field}/labels/unit", labels=True, levels=0).result()
    return path


def named(trees: Path, path: Path, owner: str, name: str) -> dict[str, Any]:
    """Return what the code in the table calls by name: a tree with an array, and places."""
    for tree in ("g.zarr", "s.zarr", "there.zarr"):
        shutil.copytree(trees / tree, path / tree)
    group = chunkwise.open_group(path / "g.zarr", mode="r+")
    array = group["a"]
    if name in ("open_consolidated", "consolidate_metadata", "copy_all", "copy_store"):
        chunkwise.open_group(path / "s.zarr", mode="r+").consolidate()
    code = FOREIGN_NAMES[owner][name].code if name in FOREIGN_NAMES.get(owner, {}) else ""
    is_there = re.search(r"(read|to_dask|open_multiscale)\(path\)", code) or name == "result"
    place: Any = path / ("there.zarr" if is_there else "new.zarr")
    if owner in ("Group", "chunkwise") and re.search(
        r"open_(dataset|group)\(path(\)|, consolidated|, engine|, .r\+)", code
    ):
        place = path / "s.zarr"
    elif owner == "Group" or code.startswith("group["):
        place = "a" if name == "rename" else "new"
    group.attrs["unit"] = "mV"
    if name == "fields":
        array = group.create_array("records", np.zeros(3, [("x", "f4")]))
    if name == "asstr":
        array = group.create_array("text", np.array([b"Z\xc3\xbcrich"]))
    plate: Any = (
        plate_at(trees, path / "plate.zarr") if owner in ("MultiscaleImage", "Plate", "Well") else None
    )
    well = plate and plate.wells["A/1"]
    image = well and well.fields["0"]
    collection = None
    if owner == "ImageCollection":
        collection = chunkwise.open_multiscale(
            plate_at(trees, path / "p.zarr").fields["A/1/0"].location + "/labels"
        )
    indices = (np.array([0, 3]), np.array([1, 2])) if "mask" not in name else (VALUES % 2 == 0,)
    table = open_table(path / "table.zarr") if owner == "LazyDataset" else None
    return {
        "chunkwise": chunkwise,
        "dask": dask,
        "numpy": np,
        "table": table,
        "dataset": None if table is None else table.read()["c"].data,
        "blocks": blocks_at(path / "c.n5/ids") if owner == "N5Blocks" else None,
        "cell": (0, 1),
        "rows": VALUES[:2],
        "pynwb": pynwb,
        "xarray": xarray,
        "plate": plate,
        "well": well,
        "image": image,
        "collection": collection,
        "array": array,
        "group": group,
        "attrs": array.attrs,
        "future": chunkwise.open(path / "there.zarr") if hasattr(array, name) else array.read(),
        "path": place,
        "source": path / "s.zarr",
        "destination": "b" if name == "rename" else path / "copy.zarr",
        "mode": "r+",
        "selection": (slice(0, 3), 2),
        "indices": indices,
        "block": (1, 0),
        "values": VALUES.astype("u1" if "labels=" in code else "f8")
        if name not in ("append", "write_direct") and not name.startswith("set_")
        else 1.5,
        "value": 2,
        "name": "unit",
        "target": "/a",
        "attributes": {"unit": "mV"},
        "shape": (10, 6),
        "size": 8,
        "dtype": "float64",
        "out": np.empty(3),
    }  # fmt: skip


def open_table(path: Path) -> chunkwise.hdmf.ZarrIO:
    """Return an open file with a table that can be written."""
    column = VectorData(name="c", description="c", data=VALUES)
    with chunkwise.hdmf.ZarrIO(path, manager=get_manager(), mode="w") as io:
        io.write(DynamicTable(name="t", description="t", columns=[column]))
    return chunkwise.hdmf.ZarrIO(path, manager=get_manager(), mode="r+")


def blocks_at(path: Path) -> chunkwise.N5Blocks:
    """Return the blocks of a dataset, of which there is one."""
    blocks = chunkwise.create_n5_blocks(
        path, dimensions=(8, 8), block_size=(4, 4), data_type="uint64", compression={"type": "gzip"}
    )
    blocks[0, 1] = [3, 5]
    return blocks


def plate_at(trees: Path, path: Path) -> chunkwise.Plate:
    """Return a copy of the plate."""
    return chunkwise.open_multiscale(shutil.copytree(trees / "plate.zarr", path))


def owner_of(owner: str, scope: dict[str, Any]) -> Any:
    """Return the object that lacks a name."""
    return scope[CALLED.get(owner, owner)]


@pytest.mark.parametrize(("owner", "name"), [row for row in ROWS if row[0] in CLASSES])
def test_an_attribute_of_others(trees: Path, owner: Any, name: str, tmp_path: Path) -> None:
    scope = named(trees, tmp_path, owner, name)
    lacks = owner_of(owner, scope)
    instead = FOREIGN_NAMES[owner][name]
    assert not hasattr(lacks, name) and name not in dir(lacks)
    with pytest.raises(AttributeError, match=re.escape(str(instead))) as caught:
        getattr(lacks, name)
    with redirect_stderr(StringIO()) as shown:
        sys.__excepthook__(caught.type, caught.value, None)
    assert shown.getvalue().strip().endswith(str(instead))  # to which Python adds no name of its own
    exec(instead.code, scope)
    if scope["table"] is not None:
        scope["table"].close()


@pytest.mark.parametrize("name", FOREIGN_NAMES["create_array"])
def test_an_argument_of_others(name: str, tmp_path: Path) -> None:
    instead = FOREIGN_NAMES["create_array"][name]
    group = chunkwise.open_group(tmp_path / "g.zarr", mode="w", format="zarr3")
    calls: list[Callable[..., Any]] = [
        lambda **options: chunkwise.create_array(tmp_path / "a.zarr", **options),
        lambda **options: group.create_array("a", **options),
        lambda **options: group.require_array("a", **options),
    ]
    if name in ("name", "path"):  # which methods have
        del calls[1:]
    elif name not in ("compression", "compression_opts", "fillvalue"):  # which h5py's calls have
        calls += [
            lambda **options: group.create_dataset("a", **options),
            lambda **options: group.require_dataset("a", **options),
        ]
    for call in calls:
        with pytest.raises(TypeError, match=f"unexpected argument '{name}'; {re.escape(str(instead))}"):
            call(shape=(8, 8), dtype="float64", **{name: 1})
    assert list(group) == []
    dtype = "" if "dtype" in instead.code else "dtype='float64', "
    code = f"chunkwise.create_array(path, shape=(8, 8), {dtype}{instead.code})"
    exec(code, {"chunkwise": chunkwise, "path": tmp_path / "a.zarr"})


@pytest.mark.parametrize(("owner", "name"), [row for row in ROWS if row[0] in FUNCTIONS])
def test_an_argument_of_other_functions(owner: Any, name: str, tmp_path: Path) -> None:
    instead = FOREIGN_NAMES[owner][name]
    group = chunkwise.create_group(tmp_path / "g.zarr", format="zarr2")
    source = group.create_array("a", VALUES)
    group.consolidate()
    for function in FUNCTIONS[owner]:
        two = (tmp_path / "b.zarr",) if owner == "copy" else ()
        with pytest.raises(TypeError, match=f"unexpected argument '{name}'; {re.escape(str(instead))}"):
            function(tmp_path / "g.zarr", *two, **{name: 1})
    assert not (tmp_path / "b.zarr").exists()
    scope = {"chunkwise": chunkwise, "name": "a", "mode": "r", "shape": (8, 8), "dtype": "float64"}
    if instead.code.startswith("chunkwise.create_array"):
        exec(instead.code, {**scope, "path": tmp_path / "n.zarr"})
    elif instead.code.startswith("chunkwise.open_array"):
        exec(instead.code, {**scope, "path": tmp_path / "g.zarr/a"})
    elif instead.code.startswith("chunkwise."):
        exec(instead.code, {**scope, "path": tmp_path / "g.zarr"})
    elif instead.code and owner == "copy":
        options = {"format": "zarr3", "chunks": (4, 3), **eval(f"dict({instead.code})")}
        options |= {"chunks": (4, 4)} if "shards" in options else {}
        chunkwise.copy(tmp_path / "g.zarr/a", tmp_path / "c.zarr", **options)
    elif instead.code and owner == "open":
        options = {"dtype": source.dtype, "shape": source.shape, **eval(f"dict({instead.code})")}
        chunkwise.open(f"file://{tmp_path}/g.zarr/a/|zarr2:", **options).result()
    elif instead.code:
        mode = {"mode": "w"} if owner == "open_group" and "consolidated" not in instead.code else {}
        place = tmp_path / ("n.zarr" if owner == "create_group" else "g.zarr")
        FUNCTIONS[owner][0](place, **{**mode, **eval(f"dict({instead.code})")})


@pytest.mark.parametrize("owner", OTHER_FUNCTIONS)
def test_parameters_of_others(owner: Any) -> None:
    for function in OTHER_FUNCTIONS[owner]:
        own = inspect.signature(function).parameters
        for name, instead in FOREIGN_NAMES[owner].items():
            refused = f"^{function.__name__} got an unexpected argument '{name}'; {re.escape(str(instead))}$"
            with pytest.raises(TypeError, match=refused):
                function(None, None, **{name: 1})
            written = re.match(r"(\w+)=", instead.code)
            assert written is None or written[1] in own or (function, name) == (chunkwise.concat, "out")


def public(kind: type) -> list[Any]:
    """Return the public functions or classes of all public modules."""
    found: dict[int, Any] = {}
    for name in PUBLIC_MODULES:
        module = import_module(f"chunkwise{name}")
        for member in map(lambda name, module=module: getattr(module, name), module.__all__):
            if isinstance(member, kind):
                found[id(member)] = member
    return list(found.values())


def required(callable: Any) -> tuple[list[None], dict[str, None]]:
    """Return arguments for the parameters without defaults."""
    parameters = [p for p in inspect.signature(callable).parameters.values() if p.default is p.empty]
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = {p.name: None for p in parameters if p.kind is p.KEYWORD_ONLY}
    return [None for p in parameters if p.kind in by_place], named


def test_an_unknown_argument_of_any_function() -> None:
    functions = public(FunctionType)
    assert len(functions) > 45
    for function in functions:
        positional, named = required(function)
        name = function.__name__
        own = [p for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_POSITIONAL]
        if function is chunkwise.store:  # whose others are those of dask's schedulers
            continue
        with pytest.raises(TypeError, match=f"^{name} got an unexpected argument 'nonsense'; ") as caught:
            function(*positional, **named, nonsense=1)
        known = [p.name for p in own if p.kind not in (p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
        assert all(re.search(rf"\b{parameter}\b", str(caught.value)) for parameter in known)
        if known:
            with pytest.raises(TypeError, match=f'did you mean "{known[-1]}"'):
                function(*positional, **{**named, f"{known[-1]}_": 1})
        assert pickle.loads(pickle.dumps(function)) is function


def test_an_unknown_argument_of_any_class() -> None:
    told = set()
    for cls in [cls for cls in public(type) if not issubclass(cls, Exception)]:
        positional, named = required(cls)
        with pytest.raises(TypeError) as caught:
            cls(*positional, **named, nonsense=1)
        if str(caught.value).startswith(f"{cls.__name__} got an unexpected argument 'nonsense'; "):
            told.add(cls.__name__)
        else:  # Python's own message names the class that has the function, and the argument
            own = [base.__name__ for base in cls.__mro__[:-1]]
            assert "nonsense" in str(caught.value) or "no arguments" in str(caught.value)
            assert any(name in str(caught.value) for name in own) or cls in (chunkwise.Schema,)
    assert {"NWBZarrIO", "ZarrIO", "ZarrDataIO", "File", "Store", "MultiscaleImage"} <= told


def test_options_of_another_function_are_known() -> None:
    with pytest.raises(TypeError, match=r'^concat got .* did you mean "fill_value"\? \(known: axis, .*write'):
        chunkwise.concat([], 0, fillvalue=1)
    with pytest.raises(TypeError, match=r"^copy got .* known: cast, checksum, chunks"):
        chunkwise.copy("a", "b", nonsense=1)
    assert chunkwise.concat([chunkwise.array([1])], 0, rank=1).rank == 1


@pytest.mark.parametrize("name", FOREIGN_NAMES["group.create_group"])
def test_an_argument_of_a_group_in_a_group(name: str, tmp_path: Path) -> None:
    instead = FOREIGN_NAMES["group.create_group"][name]
    group = chunkwise.create_group(tmp_path / "g.zarr")
    with pytest.raises(TypeError, match=re.escape(str(instead))):
        group.create_group("a", **{name: "zarr2"})
    assert list(group) == []
    call = instead.code if instead.code.startswith("group.") else f"group.create_group('a', {instead.code})"
    exec(call, {"group": group})
    assert list(group) == ["a"]


@pytest.mark.parametrize(
    ("owner", "name"), [row for row in ROWS if row[0].startswith("group.") and row[0] != "group.create_group"]
)
def test_an_argument_of_another_method(trees: Path, owner: Any, name: str, tmp_path: Path) -> None:
    place = "a" if owner == "group.move" else "new"
    scope = {**named(trees, tmp_path, "", ""), "path": place, "destination": "b"}
    group, instead = scope["group"], FOREIGN_NAMES[owner][name]
    with pytest.raises(TypeError, match=re.escape(str(instead))):
        getattr(group, owner.removeprefix("group."))(**{name: 1})
    exec(instead.code, scope)


def test_an_unknown_argument_of_any_method_of_a_group() -> None:
    group = chunkwise.create_group("memory://")
    names = [name for name in dir(group) if not name.startswith("_") and callable(getattr(group, name))]
    assert len(names) > 20
    for name in names:
        method = getattr(group, name)
        positional, named = required(method)
        with pytest.raises(TypeError, match=f"^{name} got an unexpected argument 'nonsense'; ") as caught:
            method(*positional, **named, nonsense=1)
        own = inspect.signature(method).parameters.values()
        known = [p.name for p in own if p.kind not in (p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
        assert all(re.search(rf"\b{parameter}\b", str(caught.value)) for parameter in known)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("link", [chunkwise.Link("/a"), h5py.SoftLink("/a"), h5py.ExternalLink("b.h5", "/a")])
def test_a_link_has_no_elements(trees: Path, write: Any, link: Any, tmp_path: Path) -> None:
    """NumPy would take a link of chunkwise for two texts."""
    scope = named(trees, tmp_path, "", "")
    with pytest.raises(TypeError, match=r"did you mean group\.create_link\(path, target\)\?"):
        write(scope, link)
    assert list(scope["group"]) == ["a"] and not (tmp_path / "new.zarr").exists()


def test_an_array_of_another_shape_is_an_error_of_h5py(trees: Path, tmp_path: Path) -> None:
    """Programs catch TypeError, as h5py and zarr-python raise it, or chunkwise's own."""
    group = named(trees, tmp_path, "", "")["group"]
    group.create_group("g")
    for require in (group.require_dataset, group.require_array):
        for name, shape, dtype in (("a", (3, 3), "f8"), ("a", (8, 6), "i2"), ("g", (8, 6), "f8")):
            for error in (TypeError, InvalidArgumentError):
                with pytest.raises(error):
                    require(name, shape=shape, dtype=dtype)


@pytest.mark.parametrize("name", FOREIGN_NAMES["resize"])
def test_resizing_as_others(trees: Path, name: str, tmp_path: Path) -> None:
    scope = named(trees, tmp_path, "resize", name)
    array, instead = scope["array"], FOREIGN_NAMES["resize"][name]
    with pytest.raises(TypeError, match=re.escape(str(instead))):
        array.resize(**{name: 0})
    exec(f"({instead.code}).result()", {**scope, "size": 9})
    assert chunkwise.open_array(tmp_path / "g.zarr/a").shape[0] in (9, 10)


@pytest.mark.parametrize("module", ["", *(name for name in PUBLIC_MODULES if name)])
def test_names_in_modules(module: str) -> None:
    """Also in ``from module import name``, whose own message would leave the advice out."""
    own = import_module(f"chunkwise{module}")
    names = {"open_zarr": 'xarray.open_dataset(path, engine="chunkwise")', "zeros": "fill_value=0"}
    names |= {} if not module else {"open_array": "did you mean chunkwise.open_array?"}
    for name, instead in names.items():
        with pytest.raises(AttributeError, match=re.escape(instead)):
            getattr(own, name)
        said = re.escape(instead) if hasattr(own, "__path__") else "cannot import name"  # Python's own
        with pytest.raises(ImportError, match=said):
            exec(f"from chunkwise{module} import {name}")
    with pytest.raises(ImportError, match=r"^cannot import name 'nonsense'"):
        exec(f"from chunkwise{module} import nonsense")
    exec("from chunkwise import napari, dask")  # modules that nothing has imported


def test_an_image_is_no_array(trees: Path, tmp_path: Path) -> None:
    """NumPy would make an array of one object of it; a window is more than two numbers."""
    image = plate_at(trees, tmp_path / "p.zarr").fields["A/1/0"]
    for use in (np.asarray, list, lambda i: i[0], lambda i: i["0"], lambda i: 1 in i):
        with pytest.raises(TypeError, match=r"image\.levels\[0\]"):
            use(image)
    with pytest.raises(TypeError, match=r"\(window\.start, window\.end\)"):
        _, _ = Window(0, 255, 3, 99)


def test_what_plates_lack(trees: Path, tmp_path: Path) -> None:
    plate = plate_at(trees, tmp_path / "p.zarr")
    for look, note in (
        (lambda: plate["A/1"], "plate.wells['A/1']"),
        (lambda: plate["A/1/9"], "list(plate.fields)"),
        (lambda: plate.wells["B/1"], "known: <1: A/1>"),
        (lambda: plate.wells["A/1"]["9"], "known: <1: 0>"),
        (lambda: plate["A/1/0"].labels["x"], "known: <1: unit>"),
    ):
        with pytest.raises(KeyError) as caught:
            look()
        assert note in caught.value.__notes__[0]


def test_a_shape_is_no_lower_bound(trees: Path, tmp_path: Path) -> None:
    array = named(trees, tmp_path, "", "")["array"]
    with pytest.raises(ValueError) as caught:
        array.resize((10, 6))
    assert caught.value.__notes__ == [str(FOREIGN_NAMES["resize"]["shape"])]


def test_names_of_dimensions_that_zarr_v2_lacks(tmp_path: Path) -> None:
    group = chunkwise.open_group(tmp_path / "g.zarr", mode="w", format="zarr2")
    array = group.create_array("a", VALUES, dimension_names=["y", "x"])
    with pytest.raises(IndexError, match=r'does not match one of \{"", ""\}') as caught:
        array[chunkwise.d["x"][0]]
    code = re.search(r"array\[chunkwise.*\]\]", caught.value.__notes__[0])
    scope = {"array": array, "chunkwise": chunkwise, "names": array.attrs["_ARRAY_DIMENSIONS"]}
    named_array = eval(code[0], scope) if code else array
    np.testing.assert_array_equal(named_array[chunkwise.d["x"][2]], VALUES[:, 2])


def test_several_fields_are_chosen_of_the_values(tmp_path: Path) -> None:
    records = np.zeros(3, [("x", "f4"), ("y", "i2"), ("z", "u1")])
    array = chunkwise.create_array(tmp_path / "r.zarr", records)
    with pytest.raises(IndexError) as caught:
        array[["x", "z"]]
    code = caught.value.__notes__[0].rpartition(": ")[2].replace("[field, field]", '["x", "z"]')
    assert eval(code, {"array": array}).dtype.names == ("x", "z")


def test_statements_of_others(trees: Path, tmp_path: Path) -> None:
    with named(trees, tmp_path, "", "")["group"] as group:
        group["k/l"] = VALUES
        np.testing.assert_array_equal(group["k/l"], VALUES)
    with pytest.raises(AlreadyExistsError):
        group["k/l"] = VALUES + 1
    np.testing.assert_array_equal(chunkwise.read(tmp_path / "g.zarr/k/l"), VALUES)
    for write in (lambda: group.create_array("m", group), lambda: np.asarray(group)):
        with pytest.raises(TypeError, match="a group has no elements"):
            write()
    assert sorted(group) == ["a", "k"]
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        group.nonsense


def rows() -> list[str]:
    """Return the rows of the table on the page, those with the same meaning as one."""
    found: dict[tuple[str, Instead], list[str]] = {}
    for owner, names in FOREIGN_NAMES.items():
        for name, instead in names.items():
            found.setdefault((owner, instead), []).append(name)
    out = []
    for (owner, instead), names in found.items():
        if owner == "Future":
            continue
        if owner not in CLASSES:
            written = [f"`{owner}({name}=)`" for name in names]
        else:
            written = [f"`{CALLED.get(owner, owner)}.{name}`" for name in names]
        text = f"`{instead.code}`" if instead.code else "leave it out"
        out.append(f"| {', '.join(written)} | {text}{f'; {instead.why}' if instead.why else ''} |")
    return out


def test_the_page_has_the_table() -> None:
    section = PAGE.read_text().partition("\n## Names that are not here\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert table == rows()


NEIGHBOURS: dict[str, tuple[list[Any], str]] = {
    "TensorStore": (
        [h5py.Dataset, zarr.Array, np.ndarray, dask.array.Array],
        "A compute_chunk_sizes from_dict open to_tiledb with_config",
    ),
    "Group": (
        [h5py.Group, h5py.File, zarr.Group],
        "create_hierarchy from_store meta_block_size open synchronizer update_attributes_async visit_links "
        "visititems_links",
    ),
    "Attributes": ([h5py.AttributeManager, zarr.core.attributes.Attributes], "get_id"),
    "chunkwise": ([zarr], "AsyncArray AsyncGroup print_debug_info"),
}
"""Classes whose public names are here or explained, but for those in the text."""

IN_SOME_VERSIONS = {
    "TensorStore": {
        "itemset": "numpy<2.4",
        "newbyteorder": "numpy<2.4",
        "ptp": "numpy<2.4",
        "tostring": "numpy<2.3",
        "create": "zarr<3.2",
        "read_chunk_sizes": "zarr>=3.2",
        "write_chunk_sizes": "zarr>=3.2",
    }
}
"""More of them, and the versions that have them."""


def is_installed(requirement: str) -> bool:
    wanted = Requirement(requirement)
    return wanted.specifier.contains(version(wanted.name), prereleases=True)


@pytest.mark.parametrize("owner", NEIGHBOURS)
def test_every_name_of_the_neighbours_is_here_or_explained(trees: Path, owner: Any, tmp_path: Path) -> None:
    lacks = owner_of(owner, named(trees, tmp_path, owner, next(iter(FOREIGN_NAMES[owner]))))
    classes, unknown = NEIGHBOURS[owner]
    names = {
        name for one in classes for name in getattr(one, "__all__", dir(one)) if not name.startswith("_")
    }
    here = set(dir(type(lacks))) | set(dir(lacks)) | FOREIGN_NAMES[owner].keys()
    some = IN_SOME_VERSIONS.get(owner, {})
    assert not here & some.keys()
    assert names - here == {*unknown.split(), *(name for name in some if is_installed(some[name]))}
