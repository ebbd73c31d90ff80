"""What the tests of backends share: a small random checkpoint, and plain transformers to compare with."""
