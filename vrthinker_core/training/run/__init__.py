"""A training run: its folder, its configuration, its checkpoints."""
