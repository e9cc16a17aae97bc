"""What older releases of hdmf do otherwise."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from nwb_content import new_file

from chunkwise.hdmf import NWBZarrIO, open_store, spec_cache


class OneAtATime:
    """A catalog that takes one reader, as those of hdmf 3 do."""

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def load_namespaces(self, path: str, reader: Any) -> dict[str, Any]:
        names = [namespace["name"] for namespace in reader.read_namespace(path)]
        self.loaded += names
        return {name: {} for name in names}


def test_included_namespaces_are_loaded_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings(), NWBZarrIO(tmp_path / "a", mode="w") as io:
        warnings.simplefilter("ignore")
        io.write(new_file())
    monkeypatch.setattr(spec_cache, "_TAKES_ALL", False)
    catalog = OneAtATime()
    found = spec_cache.load_cached_namespaces(open_store(tmp_path / "a"), catalog)
    assert catalog.loaded == ["hdmf-common", "hdmf-experimental", "core"]
    assert set(found) == set(catalog.loaded)
    assert spec_cache.load_cached_namespaces(open_store(tmp_path / "a"), OneAtATime(), ["core"]).keys() == {
        "core"
    }
