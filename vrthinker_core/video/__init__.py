"""Open hostile files, map slots to real frames, decode each needed frame once."""
