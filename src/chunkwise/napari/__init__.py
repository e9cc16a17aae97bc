"""The plugin of napari: a reader, found by the manifest ``chunkwise/napari.yaml``."""
