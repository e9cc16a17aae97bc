"""Pickles of Zarr v2 stores, read as data and written without pickle."""
