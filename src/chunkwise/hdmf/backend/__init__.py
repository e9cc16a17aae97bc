"""hdmf's backend: I/O objects, builders, and data as hdmf handles it."""
