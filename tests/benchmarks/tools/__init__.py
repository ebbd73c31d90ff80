"""What the benchmarks share: clips, models, loops, clients, and how things are measured."""
