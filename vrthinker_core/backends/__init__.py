"""Judges: how messages become text."""
