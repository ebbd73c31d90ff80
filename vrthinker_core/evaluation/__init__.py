"""From pairs to decisions: engines, scores, rankings, reports and rewards."""
