"""Crash-safe files, JSON adapters of types, and the open-file limit."""
