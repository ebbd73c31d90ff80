"""Labelled pairs to train with: drawn ones, and those of tables, rows and traces, each known by its number."""
