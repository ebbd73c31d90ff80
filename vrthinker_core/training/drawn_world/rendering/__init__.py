"""Draws pictures: solids on a ground by casting rays, textures, photographs, and what wear and damage do to a picture."""
