"""The stores in tests/fixtures/nwb and what their manifest says of them."""

from __future__ import annotations

import base64
import json
import math
import shutil
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from chunkwise.hdmf import Reference

FIXTURES = Path(__file__).parents[1] / "fixtures" / "nwb"
MANIFEST = json.loads((FIXTURES / "manifest.json").read_text())


def entries(member: str) -> list[dict[str, Any]]:
    return [entry for entry in MANIFEST["files"] if entry.get(member)]


def name_of(entry: dict[str, Any]) -> str:
    return "/".join(part for part in ((entry["zip"] or "").removesuffix(".zip"), entry["store"]) if part)


def unpack_all(target: Path) -> Path:
    for path in FIXTURES.iterdir():
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                archive.extractall(target / path.stem)
        elif path.is_dir():
            shutil.copytree(path, target / path.name)
    return target


def plain(value: Any) -> Any:
    """Return a value of a store in the manifest's encoding; references as source and path only."""
    if isinstance(value, Reference):
        return {"$ref": {"path": value.path, "source": value.source}}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": "nan" if value != value else "inf" if value > 0 else "-inf"}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def without_ids(expected: Any) -> Any:
    """Return what the manifest expects with references as source and path only."""
    if isinstance(expected, list):
        return [without_ids(item) for item in expected]
    if not isinstance(expected, dict):
        return expected
    if "$ref" in expected:
        return {"$ref": {key: expected["$ref"][key] for key in ("path", "source")}}
    return {key: without_ids(item) for key, item in expected.items()}


def seen(value: Any) -> Any:
    """Return what pynwb gives in the encoding of the manifest's container checks."""
    if hasattr(value, "neurodata_type"):
        return {"$container": [value.neurodata_type, value.name]}
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, bytes):
        return {"$bytes_ascii": value.decode()}
    if type(value).__name__ == "LazyDataset":
        value = value[()]
    if isinstance(value, np.void):
        value = list(value)
    elif isinstance(value, np.ndarray):
        value = list(value) if value.dtype == object else value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": "nan" if value != value else "inf" if value > 0 else "-inf"}
    if isinstance(value, list | tuple):
        return [seen(item) for item in value]
    return value


def same(value: Any, expected: Any) -> bool:
    """Return True if a container check holds; Zarr v3 has ASCII bytes as text."""
    if isinstance(expected, dict) and "$bytes_ascii" in expected and value == expected["$bytes_ascii"]:
        return True
    return bool(value == expected)
