"""Multiscale images: read, written, served over HTTP, and shown."""
