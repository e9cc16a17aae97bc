"""Keys whose values are byte ranges of other values: tables of references, and the store over them."""
