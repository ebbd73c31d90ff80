"""Pairs of videos with known labels, to train and to measure judges with."""
