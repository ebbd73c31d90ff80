"""Opening a checkpoint: its files, the memory it needs, its weights."""
