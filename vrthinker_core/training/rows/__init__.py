"""Training rows from traces: what a run teaches, in the published data formats."""
