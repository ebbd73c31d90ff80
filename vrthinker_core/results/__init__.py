"""Labelled pairs of data sets, and the results that an evaluation keeps."""
