"""Trees of groups and arrays, the same in Zarr v2, Zarr v3 and N5."""
