"""Benchmarks: commands that print what they measure. `python -m tests.benchmarks` lists them."""
