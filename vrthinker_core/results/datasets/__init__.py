"""Readers of public data sets, one file per layout.

`read_dataset` opens a data set by the name of its layout.
"""

from vrthinker_core.results.datasets.factory import DATASETS, read_dataset, take_some

__all__ = ["DATASETS", "read_dataset", "take_some"]
