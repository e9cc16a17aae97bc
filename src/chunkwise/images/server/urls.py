"""URLs for each client of a server."""

from __future__ import annotations

import json
from contextlib import suppress
from urllib.parse import quote

from chunkwise.errors import ChunkwiseError, UnsupportedError
from chunkwise.images.server.image import image_at
from chunkwise.images.server.neuroglancer import neuroglancer_state
from chunkwise.images.server.sources import Sources, find_nodes
from chunkwise.images.server.trees import ServedArray, ServedGroup
from chunkwise.images.server.zarr3 import KEY

__all__ = ["ready_urls"]

_NEUROGLANCER = "https://neuroglancer-demo.appspot.com/#!"


def ready_urls(url: str, sources: Sources) -> dict[str, str]:
    """Return, by client, a URL or a line of code that opens the first thing that is served."""
    name = next(iter(sources))
    base = f"{url}zarr3/{quote(name)}"
    out = {"page": url}
    with suppress(UnsupportedError):
        state = neuroglancer_state(url, sources)
        out["neuroglancer"] = _NEUROGLANCER + quote(json.dumps(state, separators=(",", ":")))
    image, path = _first_image(sources)
    array = f"{url}zarr3/{'/'.join(map(quote, path))}"
    out |= {
        "napari": f"napari {url}zarr3/{'/'.join(map(quote, image))}",
        "zarr-python": f'zarr.open("{base}", mode="r")',
        "TensorStore": f'ts.open({{"driver": "zarr3", "kvstore": "{array}/"}})',
        "N5": f'ts.open({{"driver": "n5", "kvstore": "{array.replace("/zarr3/", "/n5/", 1)}/"}})',
        "fsspec": f'fsspec.get_mapper("{base}")',
    }
    if _is_nwb(sources, name):
        out["pynwb"] = f'chunkwise.hdmf.read_nwb("{base}")'
    return out


def _is_nwb(sources: Sources, name: str) -> bool:
    try:
        node = sources.find((name,))
    except ChunkwiseError:
        return False
    # Other formats have HDMF's types and references in forms that are none of Zarr v3's.
    is_stored = isinstance(node, ServedGroup) and node.node is not None and node.node.key == KEY
    return is_stored and isinstance(node, ServedGroup) and "nwb_version" in node.attributes


def _first_image(sources: Sources) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of the first image, if there is one, and of an array, which is its first level."""
    first: tuple[str, ...] | None = None
    for path, node in find_nodes(sources):
        try:
            image = image_at(path, node)
        except ChunkwiseError:
            continue
        if image is not None:
            return path, (*path, *filter(None, image.paths[0].split("/")))
        if first is None and isinstance(node, ServedArray):
            first = path
    first = first or (next(iter(sources)),)
    return first, first
