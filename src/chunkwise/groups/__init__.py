"""Groups: trees of groups and arrays as mappings, the same in Zarr v2, Zarr v3 and N5."""
