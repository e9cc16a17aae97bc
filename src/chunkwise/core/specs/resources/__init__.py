"""The kinds of context resources, one group in each module."""
