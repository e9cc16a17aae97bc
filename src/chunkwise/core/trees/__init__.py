"""Nodes of hierarchies: locations, documents, attributes, links, consolidated metadata."""
