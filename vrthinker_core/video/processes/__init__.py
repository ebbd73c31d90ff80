"""Decoding processes: how they are started, forked, watched and ended."""
