"""The stage `base`: a small model made from nothing that sees and describes, and judges nothing yet."""
