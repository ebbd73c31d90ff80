"""The paper's three stages, and all of them in turn: each a function of a configuration, a run folder and data."""
