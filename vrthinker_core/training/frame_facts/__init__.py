"""What a frame of the drawn world shows, as the numbers that a small model reads."""
