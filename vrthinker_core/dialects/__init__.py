"""The published prompt protocols."""
