"""The contract of trees of groups and arrays, in every format and on every store, as a suite to inherit from.

Examples
--------
In a test module::

    class TestZarr2OnDisk(HierarchyContract):
        format = "zarr2"

        @pytest.fixture
        def place(self, tmp_path):
            return str(tmp_path / "tree")
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as ts
from chunkwise.errors import AlreadyExistsError, NodeNotFoundError, NotFoundError

__all__ = ["HierarchyContract"]

FEW = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,
    ],
)
VALUES = np.arange(24, dtype="i4").reshape(4, 6)
NAMES = st.sampled_from(["a", "b", "c", "Größe", "x y"])


class HierarchyContract:
    """The suite; a subclass has a fixture ``place``: a URL, path, spec or kvstore with nothing in it.

    Attributes
    ----------
    format : str
        ``zarr3``, ``zarr2`` or ``n5``.
    """

    format: ClassVar[str]

    @pytest.fixture
    def tree(self, place: Any) -> Any:
        """A new tree."""
        return ts.create_group(place, format=self.format)

    def reopened(self, place: Any, mode: Any = "r", **options: Any) -> Any:
        """Open the tree anew; whose members are groups or arrays, as the tests know."""
        return ts.open_group(place, mode, format=self.format, **options)

    def test_is_there_when_it_is_made(self, place: Any) -> None:
        """A place without a tree is an error, one with a tree is not made again."""
        with pytest.raises(NotFoundError):
            self.reopened(place)
        ts.create_group(place, format=self.format, attributes={"made": [1, 2]})
        assert dict(self.reopened(place).attrs) == {"made": [1, 2]}
        with pytest.raises(AlreadyExistsError):
            ts.create_group(place, format=self.format)
        assert dict(ts.open_group(place, "a", format=self.format).attrs) == {"made": [1, 2]}

    def test_members(self, tree: Any, place: Any) -> None:
        """Groups and arrays are found by path, by name and by walking, and hold what was written."""
        array = tree.create_array("g/h/a", data=VALUES, chunks=(2, 3), attributes={"unit": "nm"})
        tree.create_group("g/e", attributes={"empty": True})
        tree.create_array("b", shape=(3,), dtype="float32")
        again = self.reopened(place)
        assert [path for path, _ in again.walk()] == ["b", "g", "g/e", "g/h", "g/h/a"]
        assert again.keys() == ["b", "g"] and list(again["g"]) == ["e", "h"]
        found = again["g"]["h/a"]
        np.testing.assert_array_equal(found.read().result(), VALUES)
        assert (found.dtype, found.attrs["unit"], found.path) == (array.dtype, "nm", "g/h/a")
        assert again["g/e"].attrs["empty"] is True and "g/x" not in again and "g/h" in again
        with pytest.raises(NodeNotFoundError):
            again["g/h/x"]
        with pytest.raises(AlreadyExistsError):
            tree.create_array("g/h/a", shape=(1,), dtype="int8")
        with pytest.raises(ValueError):
            again.create_group("new")  # it was opened for reading

    def test_deleting(self, tree: Any, place: Any) -> None:
        """Deleting a node removes everything below it, and nothing else."""
        tree.create_array("a/x", data=VALUES)
        tree.create_array("ab/x", data=VALUES)
        del tree["a"]
        again = self.reopened(place)
        assert again.keys() == ["ab"] and "a/x" not in again
        np.testing.assert_array_equal(again["ab/x"].read().result(), VALUES)
        with pytest.raises(KeyError):
            del tree["a"]
        tree.create_array("a/x", data=VALUES + 1)
        np.testing.assert_array_equal(self.reopened(place)["a/x"].read().result(), VALUES + 1)

    def test_moving_and_copying(self, tree: Any, place: Any) -> None:
        """Moves and copies carry chunks and attributes along."""
        tree.create_array("a/x", data=VALUES, chunks=(2, 2), attributes={"k": 1})
        tree.copy("a", "c/d")
        tree.move("a", "m")
        again = self.reopened(place)
        assert [path for path, _ in again.walk()] == ["c", "c/d", "c/d/x", "m", "m/x"]
        for path in ("c/d/x", "m/x"):
            np.testing.assert_array_equal(again[path].read().result(), VALUES)
            assert dict(again[path].attrs)["k"] == 1
        with pytest.raises(AlreadyExistsError):
            tree.move("m", "c")

    @FEW
    @given(data=st.data())
    def test_behaves_like_nested_dicts(self, place: Any, data: st.DataObject) -> None:
        """Groups made, deleted and given attributes in any order are as in a dict of dicts."""
        tree = self.reopened(place, "a")
        for name in list(tree):
            del tree[name]
        model: dict[str, dict[str, Any]] = {}
        for _ in range(data.draw(st.integers(1, 8), "steps")):
            path = "/".join(data.draw(st.lists(NAMES, min_size=1, max_size=3), "path"))
            what = data.draw(st.sampled_from(["make", "make", "delete", "attribute"]))
            if what == "make":
                tree.require_group(path)
                parts = path.split("/")
                for n in range(1, len(parts) + 1):
                    model.setdefault("/".join(parts[:n]), {})
            elif path not in model:
                assert path not in tree
            elif what == "delete":
                del tree[path]
                model = {k: v for k, v in model.items() if k != path and not k.startswith(path + "/")}
            else:
                model[path][f"k{len(model)}"] = len(model)
                tree[path].attrs[f"k{len(model)}"] = len(model)
        found = {path: dict(member.attrs) for path, member in self.reopened(place).walk()}
        assert found == model

    def test_attributes_of_many_writers(self, tree: Any, place: Any) -> None:
        """Handles in several threads change attributes of one group, and all of it is there."""
        tree.create_group("g")

        def write(worker: int) -> None:
            group = self.reopened(place, "r+")["g"]
            for i in range(5):
                group.attrs[f"{worker}-{i}"] = i

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        found = dict(self.reopened(place)["g"].attrs)
        assert found == {f"{worker}-{i}": i for worker in range(4) for i in range(5)}

    def test_consolidated(self, tree: Any, place: Any) -> None:
        """The snapshot tells of the tree what the nodes tell; N5 has none."""
        tree.create_array("g/a", data=VALUES, attributes={"k": 1})
        if self.format == "n5":
            with pytest.raises(ValueError, match="only groups of Zarr v2 and v3"):
                tree.consolidate()
            return
        tree.consolidate()
        whole = self.reopened(place, consolidated=True)
        assert [path for path, _ in whole.walk()] == ["g", "g/a"]
        assert dict(whole["g/a"].attrs)["k"] == 1
        np.testing.assert_array_equal(whole["g/a"].read().result(), VALUES)
