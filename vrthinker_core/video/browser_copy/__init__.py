"""Copies of videos for browsers; the judge reads the originals."""
