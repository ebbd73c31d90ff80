"""What an evaluation keeps of each pair: one line of JSON, read by scores, reports and the page."""
