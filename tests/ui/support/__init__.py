"""Helpers of the page's tests: clips, handmade runs, saved examples, calls of the API."""
