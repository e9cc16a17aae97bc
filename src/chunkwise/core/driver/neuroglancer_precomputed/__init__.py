"""neuroglancer's precomputed volumes: the document ``info``, and an array for each scale."""
