"""Frames that the base learns from: drawn and damaged pictures, what a tower sees of them, and codes without a picture."""
