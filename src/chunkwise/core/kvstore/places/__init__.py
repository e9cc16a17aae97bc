"""Places in a store: new data is staged beside the old, takes its place at once, or is deleted."""
