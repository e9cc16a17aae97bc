"""What napari's plugin manager loads: a reader, found by the manifest ``chunkwise/napari.yaml``."""
