"""The small model itself: its shape, its vocabulary, its layers in training, and its checkpoint."""
