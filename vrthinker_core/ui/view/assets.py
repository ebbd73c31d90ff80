"""The page's own scripts and styles, from `assets/`."""

from pathlib import Path

ASSETS = Path(__file__).resolve().parents[3] / "assets"
EXAMPLES = ASSETS / "examples"

# What draws a run: all that a saved report needs.
VIEW = (
    *("trace.js", "tiles.js", "passage.js", "links.js", "facts.js", "turn.js", "order.js", "frames.js"),
    *("zoom.js", "exact.js", "closer.js", "transcript.js", "votes/vote.js"),
)
VIEW_STYLES = ("trace.css", "order.css", "frames.css", "closer.css", "transcript.css", "votes/vote.css")
PAGE = (
    *(*VIEW, "intro.js", "players/stills.js", "players.js", "rail.js", "save.js", "follow.js", "scroll_anchor.js"),
    *("inputs.js", "uploads.js", "address.js", "examples.js", "history/history.js"),
    *("votes/ballot.js", "votes/vote_first.js"),
    *("branches/form.js", "branches/strip.js"),
    "page.js",
)
PAGE_STYLES = ("page.css", "branches/branches.css", "players/stills.css", "gradio.css", "history/history.css")


def joined(*names: str) -> str:
    """The scripts or style sheets of those names, joined in that order."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)
