"""Opening a checkpoint: its files, the devices it fits on, its weights."""
