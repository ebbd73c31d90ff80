"""What the tests of backends share: a small random model, and what plain transformers makes of the same messages."""
