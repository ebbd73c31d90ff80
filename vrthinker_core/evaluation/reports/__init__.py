"""Reports: one HTML file that opens from the disk, and JSON, of an evaluation or of two judges on the same pairs."""
