"""Labelled pairs of data sets, and the results that an evaluation keeps.

Each result is one line of JSON, which scores, reports and the page read.
"""
