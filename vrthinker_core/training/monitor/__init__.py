"""What is seen of training while it runs: a record of every step, and curves."""
