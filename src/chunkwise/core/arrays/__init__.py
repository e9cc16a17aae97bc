"""Open arrays: what a driver gives when a spec is opened, one module per kind of array."""
