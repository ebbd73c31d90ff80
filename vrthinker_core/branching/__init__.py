"""Branches: runs that begin with the first turns of another run."""
