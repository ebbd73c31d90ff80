"""The page's own scripts and styles, from `assets/`."""

from vrthinker_core.__about__ import ASSETS as ASSETS
from vrthinker_core.__about__ import asset

EXAMPLES = ASSETS / "examples"

# What draws a run: all that a saved report needs. A name's folder is its part of the page; the order is that of their classes.
VIEW = (
    *(
        f"run/{name}.js"
        for name in (
            "trace",
            "tiles",
            "passage",
            "links",
            "facts",
            "turn",
            "order",
            "frames",
            "transcript",
        )
    ),
    *(f"closer/{name}.js" for name in ("zoom", "exact", "closer")),
    "votes/vote.js",
)
VIEW_STYLES = (
    *(f"run/{name}.css" for name in ("trace", "order", "frames", "transcript")),
    *("closer/closer.css", "votes/vote.css"),
)
PAGE = (
    *VIEW,
    *(f"players/{name}.js" for name in ("stills", "players", "rail")),
    *(
        f"page/{name}.js"
        for name in ("event_stream", "intro", "save", "follow", "scroll_anchor", "announcer")
    ),
    *(
        f"page/{name}.js"
        for name in (
            "pointer_focus",
            "inputs",
            "buttons",
            "stop_bar",
            "uploads",
            "address",
            "examples",
        )
    ),
    *(
        "history/history.js",
        "votes/ballot.js",
        "votes/vote_first.js",
        "branches/form.js",
        "branches/strip.js",
    ),
    *(f"runs/{name}.js" for name in ("choice", "row", "side_by_side", "picked", "list", "bar")),
    "page/page.js",
)
HEARTBEAT = (
    "page/heartbeat.js"  # Stands in the head, before Gradio's scripts; all others come after them
)
PAGE_STYLES = (
    *("page/page.css", "branches/branches.css", "players/stills.css", "page/gradio.css"),
    *("history/history.css", "runs/runs.css", "runs/side_by_side.css"),
)


def joined(*names: str) -> str:
    """The scripts or style sheets of those names, joined in that order."""
    return "\n".join(asset(name).read_text(encoding="utf-8") for name in names)
