"""Registries, JSON members, arguments, optional packages, locks and threads, for all other modules."""
