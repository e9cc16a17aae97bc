"""Stores in buckets of S3, Google Cloud Storage and Azure: their requests and credentials."""
