"""A copy of a video that every browser plays, for the page only: the judge reads the original."""
