"""What a decoding process does: find the frames that slots mean, decode each once, convert it to the pixels a judge is given."""
