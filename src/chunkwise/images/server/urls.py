"""URLs for each client of a server."""

from __future__ import annotations

import json
from urllib.parse import quote

from chunkwise.errors import ChunkwiseError
from chunkwise.images.server.image import image_at
from chunkwise.images.server.precomputed import PrecomputedVolume
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.trees import ServedArray, ServedGroup
from chunkwise.images.server.zarr3 import KEY

__all__ = ["neuroglancer_sources", "ready_urls"]

_NEUROGLANCER = "https://neuroglancer-demo.appspot.com/#!"
_MOST_LAYERS = 8
_MOST_LOOKED_AT = 64


def ready_urls(url: str, sources: Sources) -> dict[str, str]:
    """Return, by client, a URL or a line of code that opens the first thing that is served."""
    name = next(iter(sources))
    base = f"{url}zarr3/{quote(name)}"
    layers = neuroglancer_sources(url, sources)
    out = {"page": url}
    if layers:
        state = {"layers": [{"name": name, "type": kind, "source": source} for name, kind, source in layers]}
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


def neuroglancer_sources(url: str, sources: Sources) -> list[tuple[str, str, str]]:
    """Return name, kind and source of a layer for each of the first images."""
    layers: list[tuple[str, str, str]] = []
    inside: tuple[str, ...] | None = None
    for path, node in _nodes(sources):
        if inside is not None and path[: len(inside)] == inside:
            continue  # a level of an image that is a layer
        try:
            image = image_at(path, node)
            if image is None:
                continue
            PrecomputedVolume(image)
        except ChunkwiseError:
            continue
        inside = path
        kind = "segmentation" if image.is_labels else "image"
        layers.append((path[-1], kind, f"precomputed://{url}precomputed/{'/'.join(map(quote, path))}"))
        if len(layers) == _MOST_LAYERS:
            break
    return layers


def _first_image(sources: Sources) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of the first image, if there is one, and of an array, which is its first level."""
    first: tuple[str, ...] | None = None
    for path, node in _nodes(sources):
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


def _nodes(sources: Sources) -> list[tuple[tuple[str, ...], ServedArray | ServedGroup]]:
    """Return the first nodes, each group before its members."""
    found: list[tuple[tuple[str, ...], ServedArray | ServedGroup]] = []
    waiting: list[tuple[str, ...]] = [(name,) for name in reversed(list(sources))]
    while waiting and len(found) < _MOST_LOOKED_AT:
        path = waiting.pop()
        try:
            node = sources.find(path)
            if node is None:
                continue
            found.append((path, node))
            if isinstance(node, ServedGroup):
                names = [member.name for member in sources.members(path, node)]
                waiting += [(*path, name) for name in reversed(names)]
        except ChunkwiseError:  # the page and the listing tell what is wrong
            continue
    return found
