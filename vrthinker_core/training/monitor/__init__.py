"""What is seen of training while it runs: a record of every step, warnings, and rollouts kept as traces."""
