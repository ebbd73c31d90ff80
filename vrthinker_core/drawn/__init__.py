"""The drawn world: pairs of scenes with true labels, and their teacher."""
