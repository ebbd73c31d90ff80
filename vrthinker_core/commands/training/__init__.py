"""The commands about training."""
