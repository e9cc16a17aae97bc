"""Datasets of xarray in Zarr v2, v3 and N5 (extra ``[xarray]``)."""
