"""Blocks of any length and label multisets, which only N5 has."""
