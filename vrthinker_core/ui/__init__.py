"""What a person sees: events folded into a view, and the page."""
