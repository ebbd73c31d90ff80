"""Files that a crash leaves readable: written whole, or line by line; and how values of a type are read and written."""
