"""Running a model: from prompt items to sampled tokens."""
