"""The kinds of context resources, a group of kinds in each module."""
