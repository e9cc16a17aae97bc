"""What only N5 has: blocks of any length, and label multisets."""
