"""A run as it is shown: events folded into a state, and the state as JSON for page, API and report."""
