"""Replacement of a dataset by another under its name."""
