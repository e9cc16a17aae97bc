"""What opening, reading and writing an array or a tree of any format takes."""
