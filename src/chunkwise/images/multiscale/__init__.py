"""Multiscale images: read from the attributes of OME-Zarr and of N5, opened on demand."""
