"""Fast construction of thousands of builders: copies of one made by hdmf, with some members replaced."""

# hdmf checks every argument of every constructor by rules that are looked up for each call; opening a file
# of some hundred objects consists of little else.  What a builder is made of is not assumed but looked up in
# one that the constructor made, and if a copy does not turn out like it, the constructor is used after all.

from __future__ import annotations

from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder

__all__ = ["BuilderFactory"]


class _Template:
    """Members of the instances of one class, and the names of those that differ."""

    def __init__(self, cls: type, example: Any, marks: dict[str, Any]) -> None:
        self.cls = cls
        self.attributes = dict(vars(example))
        self.items = dict(dict.items(example))
        self.places = {
            mark: [key for key, value in self.attributes.items() if value is given]
            for mark, given in marks.items()
        }

    def make(self, members: dict[str, Any], items: dict[str, Any]) -> Any:
        out: Any = self.cls.__new__(self.cls)  # type: ignore[call-overload]
        own = vars(out)
        for key, value in self.attributes.items():
            own[key] = dict(value) if type(value) is dict else value
        for mark, value in members.items():
            for key in self.places[mark]:
                own[key] = value
        for key, value in self.items.items():
            dict.__setitem__(
                out, key, items[key] if key in items else dict(value) if type(value) is dict else value
            )
        return out


class BuilderFactory:
    """Makes group and dataset builders, and registers them in their parents."""

    def __init__(self) -> None:
        name, source, dtype = "a name", "a source", "a dtype"
        parent = GroupBuilder("parent", source=source)
        marks = {"name": name, "source": source, "parent": parent}
        group = GroupBuilder(name, parent=parent, source=source)
        dataset = DatasetBuilder(name, None, dtype=dtype, parent=parent, source=source)
        self._group = _Template(GroupBuilder, group, marks)
        self._dataset = _Template(DatasetBuilder, dataset, {**marks, "dtype": dtype})
        self._fast = self._works()

    def _works(self) -> bool:
        above = GroupBuilder("above", source="s")
        try:
            pairs = [
                (
                    self._new_group("g", {"a": 1}, above, "s"),
                    GroupBuilder("g", attributes={"a": 1}, parent=above, source="s"),
                ),
                (
                    self._new_dataset("d", 5, "int", {"b": 2}, above, "s"),
                    DatasetBuilder("d", 5, dtype="int", attributes={"b": 2}, parent=above, source="s"),
                ),
            ]
            return all(vars(a) == vars(b) and dict(dict.items(a)) == dict(dict.items(b)) for a, b in pairs)
        except (AttributeError, KeyError, TypeError, ValueError):
            return False

    def _new_group(self, name: str, attributes: dict[str, Any], parent: Any, source: str) -> Any:
        out = self._group.make(
            {"name": name, "source": source, "parent": parent}, {"attributes": dict(attributes)}
        )
        out.obj_type.update(dict.fromkeys(attributes, "attributes"))
        return out

    def _new_dataset(
        self, name: str, data: Any, dtype: Any, attributes: dict[str, Any], parent: Any, source: str
    ) -> Any:
        members = {"name": name, "source": source, "parent": parent, "dtype": dtype}
        return self._dataset.make(members, {"data": data, "attributes": dict(attributes)})

    def group(
        self, name: str, attributes: dict[str, Any], parent: GroupBuilder | None, source: str
    ) -> GroupBuilder:
        """Return a group builder, put into its parent."""
        if not self._fast or parent is None or not _is_free(parent, name):
            made = GroupBuilder(name, attributes=attributes, source=source)
            if parent is not None:
                parent.set_group(made)
            return made
        out = self._new_group(name, attributes, parent, source)
        dict.__getitem__(parent, "groups")[name] = out
        parent.obj_type[name] = "groups"
        return out  # type: ignore[no-any-return, unused-ignore]

    def dataset(
        self,
        name: str,
        data: Any,
        dtype: Any,
        attributes: dict[str, Any],
        parent: GroupBuilder | None,
        source: str,
    ) -> DatasetBuilder:
        """Return a dataset builder, put into its parent; raises as `group` does."""
        if not self._fast or parent is None or not _is_free(parent, name):
            made = DatasetBuilder(name, data, dtype=dtype, attributes=attributes, source=source)
            if parent is not None:
                parent.set_dataset(made)
            return made
        out = self._new_dataset(name, data, dtype, attributes, parent, source)
        dict.__getitem__(parent, "datasets")[name] = out
        parent.obj_type[name] = "datasets"
        return out  # type: ignore[no-any-return, unused-ignore]


def _is_free(parent: Any, name: str) -> bool:
    return name not in parent.obj_type
