"""What a judge does, whether people agree or not: order of the videos, own contradictions, confidence, cost, and on which pairs."""
