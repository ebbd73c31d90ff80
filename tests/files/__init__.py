"""Files that a crash leaves readable."""
