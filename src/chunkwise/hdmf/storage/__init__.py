"""Open stores: datasets, links, writing nodes and streams."""
