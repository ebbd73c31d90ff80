"""The page's own scripts and style sheets, from `assets/`."""

from vrthinker_core.__about__ import ASSETS as ASSETS
from vrthinker_core.__about__ import asset

EXAMPLES = ASSETS / "examples"

VIEW = ("trace.js", "verdict.js", "closer.js")  # draws a run, in a saved report, too
INPUTS = ("players.js", "live.js", "inputs.js", "history.js", "ballot.js", "branches.js", "runs.js")
PAGE = (*VIEW, *INPUTS, "page.js")
HEARTBEAT = "heartbeat.js"  # In the head, before Gradio's scripts; all others come after them
VIEW_STYLES = ("run.css",)
PAGE_STYLES = ("page.css",)


def joined(*names: str) -> str:
    """Return the scripts or style sheets of these names, joined in this order."""
    return "\n".join(asset(name).read_text(encoding="utf-8") for name in names)
