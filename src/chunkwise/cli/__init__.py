"""The command ``chunkwise``: one module a command, each thin over ``chunkwise.api``."""
