"""Arrays over HTTP: as Zarr v3, N5 and neuroglancer precomputed, and as a page that shows them."""
