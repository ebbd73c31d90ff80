"""Files that a crash leaves readable: written whole, or line by line."""
