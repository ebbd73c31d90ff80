"""Rankings of video generators from pairwise comparisons: which pairs are judged, strengths with intervals, cycles, best of N."""
