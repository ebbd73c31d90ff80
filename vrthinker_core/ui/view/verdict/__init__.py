"""A verdict as the page is given it: its labels with their reasons, and both orders."""
