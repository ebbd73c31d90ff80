"""The drawn world, its teacher and its judge's notes: scenes with true labels, as videos."""
