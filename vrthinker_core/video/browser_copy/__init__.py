"""A copy of a video that every browser plays, for the page alone: the judge reads the original."""
