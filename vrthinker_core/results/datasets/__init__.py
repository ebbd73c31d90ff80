"""The public layouts: a file for each says which column is which label, and nothing else. `read_dataset` opens the one named."""

from vrthinker_core.results.datasets.factory import DATASETS, read_dataset, take_some

__all__ = ["DATASETS", "read_dataset", "take_some"]
