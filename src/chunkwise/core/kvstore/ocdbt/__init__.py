"""OCDBT databases as bytes: manifests, nodes of both trees, and how a commit changes them.

Nothing here reads or writes a store; `chunkwise.core.kvstore.adapter.ocdbt` does.

Specification
-------------
https://google.github.io/tensorstore/kvstore/ocdbt/index.html#storage-format
"""
