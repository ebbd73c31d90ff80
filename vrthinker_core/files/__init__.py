"""Files that a crash leaves readable, written whole or line by line; what reads a type from JSON; and how many may be open."""
