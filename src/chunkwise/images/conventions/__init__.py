"""Conventions of images, one module for each, both ways: found, read, written, edited."""
