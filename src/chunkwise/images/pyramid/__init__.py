"""Multiscale pyramids: an image at several resolutions, in the layouts that viewers read."""
