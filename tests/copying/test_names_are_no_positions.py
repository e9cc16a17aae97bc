"""Elements keep their positions in a copy, whatever the dimensions are called: names are only written."""

import numpy as np
import pytest
import tensorstore
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import LossWarning

VALUES = np.arange(4 * 4 * 4, dtype="uint16").reshape(4, 4, 4)
NAMES = [("z", "x", "y"), ("x", "z", "y"), ("p", "q", "r"), (None, "z", None)]
FORMATS = ("zarr3", "zarr2", "n5")


def _two_passes(source, target, **options):
    plan = cw.plan_copy(source, target, memory=300, chunks=(4, 4, 1), **options)
    assert len(plan.passes) == 2
    cw.copy(source, target, plan=plan, memory=300, chunks=(4, 4, 1), verify=True, **options)


def _in_tree(source, target, format, **options):
    source = source.rpartition("/")[0]
    cw.copy_tree(source, target.rpartition("/")[0], format=format, verify=True, **options)


def _in_group(source, target, format, **options):
    above, _, name = target.rpartition("/")
    group = cw.create_group(above, format=format)
    group.copy(cw.open_array(source), name, options=options, verify=True)


def _created(source, target, format, dimension_names):
    cw.create_array(target, cw.open_array(source), format=format, dimension_names=dimension_names)


WRITERS = {
    "copy": lambda *where, **options: cw.copy(*where, verify=True, **options),
    "another data type": lambda *where, **options: cw.copy(*where, dtype="float64", verify=True, **options),
    "two passes": _two_passes,
    "copy_tree": _in_tree,
    "Group.copy": _in_group,
    "create_array": _created,
}


def _by_others(path, format):
    if format == "n5":
        spec = {"driver": "n5", "kvstore": {"driver": "file", "path": path + "/"}}
        return np.asarray(tensorstore.open(spec).result().read().result())
    return zarr.open_array(path, mode="r")[...]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The same array in each format, in a group."""
    made = []
    for format in FORMATS:
        group = cw.create_group(tmp_path_factory.mktemp("s") / f"{format}", format=format)
        group.create_array("data", VALUES, dimension_names=("z", "y", "x"), chunks=(1, 4, 4))
        made.append(f"{group.location.text.rstrip('/')}/data")
    return made


@pytest.mark.each_once
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("format", FORMATS)
def test_other_names_move_nothing(tmp_path, sources, writer, format):
    for number, names in enumerate(NAMES):
        source, target = sources[number % 3], f"{tmp_path}/{number}/data"
        WRITERS[writer](source, target, format=format, dimension_names=names)
        np.testing.assert_array_equal(_by_others(target, format), VALUES)
        assert not [one for one in cw.diff(source, target) if one.what == "values"], names
        labels = cw.open_array(target).domain.labels
        assert format == "zarr2" or list(labels) == [name or "" for name in names]


@pytest.mark.parametrize("names", ["x,y", "p,q"])
def test_the_command_only_writes_names(tmp_path, names, capsys):
    values = np.arange(9).reshape(3, 3)
    cw.create_array(tmp_path / "a.zarr", values, dimension_names=["y", "x"])
    assert main(["cp", f"{tmp_path}/a.zarr", f"{tmp_path}/b.zarr", "--labels", names, "--verify"]) == 0
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "b.zarr")[...], values)
    assert zarr.open_array(tmp_path / "b.zarr").metadata.dimension_names == tuple(names.split(","))


def test_a_comparison_takes_no_names_for_positions(tmp_path):
    values = np.arange(9).reshape(3, 3)
    cw.create_array(tmp_path / "a.zarr", values, dimension_names=["y", "x"])
    cw.create_array(tmp_path / "b.zarr", values.T, dimension_names=["x", "y"])
    assert [one.what for one in cw.diff(tmp_path / "a.zarr", tmp_path / "b.zarr")] == [
        "dimension_names",
        "values",
    ]


def test_assignment_goes_by_label(tmp_path):
    """As in TensorStore."""
    values = np.arange(9).reshape(3, 3)
    source = cw.create_array(tmp_path / "a.zarr", values, dimension_names=["y", "x"])
    target = cw.create_array(
        tmp_path / "b.zarr", shape=(3, 3), dtype=values.dtype, dimension_names=["x", "y"]
    )
    target[...] = source
    np.testing.assert_array_equal(target, values.T)


@pytest.mark.parametrize("stray", [5, ["p", "q"], None])
@pytest.mark.parametrize("options", [{}, {"dimension_names": ["b", "a"]}])
def test_names_stand_where_zarr_v2_has_them_whatever_attribute_was_there(stray, options, tmp_path):
    attributes = {"_ARRAY_DIMENSIONS": stray, "q": 1}
    names = options.get("dimension_names", ["y", "x"])
    cw.create_array(tmp_path / "a", np.eye(3), dimension_names=["y", "x"], attributes=attributes)
    with pytest.warns(LossWarning, match='attribute "_ARRAY_DIMENSIONS" is left out'):
        cw.copy(tmp_path / "a", tmp_path / "b", format="zarr2", dimension_units=["4 nm", None], **options)
    found = dict(cw.open_array(tmp_path / "b").attrs)
    assert found == {"_ARRAY_DIMENSIONS": names, "dimension_units": ["4 nm", None], "q": 1}
