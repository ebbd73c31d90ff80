"""The package itself: its version."""

__version__ = "0.2.0"
