"""neuroglancer's precomputed volumes: the document ``info``, and what it means as an array for each scale."""
