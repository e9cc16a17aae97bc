"""Opening, reading and writing arrays and trees of all formats."""
