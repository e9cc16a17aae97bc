"""Keys whose values lie in byte ranges of other values: tables of references, and the store over them."""
