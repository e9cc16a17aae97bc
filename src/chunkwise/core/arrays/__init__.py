"""Open arrays: the objects that drivers open specs as, one module for each kind of array."""
