"""Editing the metadata of images."""
