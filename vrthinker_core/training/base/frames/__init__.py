"""Frames as codes: what they say, what is drawn and seen of them, and codes without a picture."""
