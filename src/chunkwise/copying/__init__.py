"""Work on whole arrays and trees: copying, migrating, verifying, comparing."""
