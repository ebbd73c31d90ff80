"""The drawn world and the teacher who knows it: scenes with true labels, drawn as videos."""
