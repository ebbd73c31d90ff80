"""The page's own scripts and styles, from `assets/`."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parents[3] / "assets"
EXAMPLES = ASSETS / "examples"

VIEW = ("trace.js", "passage.js", "links.js", "turn.js", "transcript.js")  # what draws a trace: all that a saved report needs
PAGE = (*VIEW, "players.js", "rail.js", "save.js", "follow.js", "inputs.js", "examples.js", "page.js")


def joined(*names: str) -> str:
    """The scripts or style sheets of those names, joined in that order."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)
