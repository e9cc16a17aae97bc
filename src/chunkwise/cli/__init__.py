"""The command ``chunkwise``: one module per command, each thin over the library."""
