"""The store of local files: paths, locks, and the steps in which a file is read, replaced or deleted."""
