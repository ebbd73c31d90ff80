"""The drawn world: a solid moves over a ground, everything about it is known, and it is written as video files."""
