"""The runs of each visitor: kept on disk, listed on the page, opened again, deleted."""
