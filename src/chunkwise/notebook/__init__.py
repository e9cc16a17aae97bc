"""Widgets of notebooks, which talk through the kernel and need no port."""
