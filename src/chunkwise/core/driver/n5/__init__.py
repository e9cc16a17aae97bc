"""The N5 format: ``attributes.json``, its attribute paths, and what they mean as an array."""
