"""The drawn world: things move over a ground, everything about them is known, and they are written as video files."""
