"""Decoding in a worker process: find, decode and convert each slot's frame."""
