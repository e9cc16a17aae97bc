"""``CodecSpec`` itself: finding the class of a driver, merging, JSON, pickling."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any, Self

import pytest
import tensorstore as ts

from chunkwise.core.base.binding import Members, dump, expect_int
from chunkwise.core.base.catalogue import codec_specs
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import InvalidArgumentError


class StandInCodecSpec(CodecSpec):
    """A codec with one number."""

    driver = "stand-in"
    level: int | None

    @classmethod
    def _parse(cls, members: dict[str, Any]) -> Self:
        rest = Members(members)
        self = cls._new()
        self.level = rest.take("level", expect_int, None)
        rest.finish()
        return self

    def _members(self) -> dict[str, Any]:
        return {} if self.level is None else {"level": self.level}

    def _merge(self, other: Self) -> Self:
        if self.level is None or other.level in (None, self.level):
            return other if self.level is None else self
        raise InvalidArgumentError(f"{dump(self.to_json())} is not {dump(other.to_json())}")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the stand-in known for one test."""
    monkeypatch.setattr(codec_specs, "_registered", dict(codec_specs._registered))
    codec_specs.register("stand-in", StandInCodecSpec)
    yield


def test_the_driver_member_names_the_class() -> None:
    spec = CodecSpec({"level": 3, "driver": "stand-in"})
    assert isinstance(spec, StandInCodecSpec)
    assert spec.to_json() == spec.to_json(include_defaults=True) == {"driver": "stand-in", "level": 3}
    assert list(spec.to_json()) == ["driver", "level"]
    assert repr(spec) == "CodecSpec({'driver': 'stand-in', 'level': 3})"
    assert CodecSpec(spec).to_json() == spec.to_json()


@pytest.mark.parametrize(
    "json",
    [
        5,
        "zarr",
        None,
        {},
        {"driver": 5},
        {"driver": "foo"},
        {"driver": "array"},
        {"driver": "zarr", "foo": 1},
        {"driver": "n5", "compression": 5},
        {"driver": "zarr3", "codecs": 5},
    ],
)
def test_errors_are_those_of_tensorstore(json: Any) -> None:
    with pytest.raises(ValueError) as expected:
        ts.CodecSpec(json)
    with pytest.raises(ValueError) as raised:
        CodecSpec(json)
    assert str(raised.value) == str(expected.value)


@pytest.mark.parametrize(
    "json",
    [
        {"driver": "n5"},
        {"driver": "n5", "compression": {"type": "gzip"}},
        {"driver": "zarr"},
        {"driver": "zarr", "compressor": None},
        {"driver": "zarr", "compressor": {"id": "zlib"}},
        {"driver": "zarr3"},
        {"driver": "zarr3", "codecs": ["gzip", {"name": "crc32c"}]},
    ],
)
def test_every_format_prints_its_codec_as_tensorstore_does(json: Any) -> None:
    assert repr(CodecSpec(json)) == repr(ts.CodecSpec(json))
    assert CodecSpec(json).to_json() == ts.CodecSpec(json).to_json()


def test_members_that_are_left_open_yield() -> None:
    some, same, other, none = (
        CodecSpec({"driver": "stand-in"} | more) for more in ({"level": 1}, {"level": 1}, {"level": 2}, {})
    )
    for a, b in ((some, none), (none, some), (some, same)):
        assert a.merge(b).to_json() == some.to_json()
    with pytest.raises(ValueError, match="is not"):
        some.merge(other)


def test_codecs_of_different_drivers_do_not_merge() -> None:
    with pytest.raises(ValueError) as raised:
        CodecSpec({"driver": "stand-in"}).merge(CodecSpec({"driver": "n5"}))
    assert str(raised.value) == 'Cannot merge codec spec {"driver":"stand-in"} with {"driver":"n5"}'


def test_equality_is_identity_and_pickling_keeps_the_members() -> None:
    spec = CodecSpec({"driver": "n5", "compression": {"type": "bzip2"}})
    assert spec == spec
    assert spec != CodecSpec(spec.to_json())
    assert len({spec, CodecSpec(spec.to_json())}) == 2
    for copied in (pickle.loads(pickle.dumps(spec)), copy.copy(spec), copy.deepcopy(spec)):
        assert copied.to_json() == spec.to_json()
        assert type(copied) is type(spec)
