"""Pairs with labels as data sets hold them, and what an evaluation keeps of each: a line of JSON for scores, reports and page."""
