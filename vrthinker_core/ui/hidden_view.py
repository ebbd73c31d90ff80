"""Runs whose verdict is hidden: it is not sent to the browser."""

from collections.abc import Mapping

from vrthinker_core.ui import words
from vrthinker_core.ui.page_json import TranscriptJson, ViewJson

COOKIE = "vote_first"  # set by the page's switch (`ballot.js`), known before the first word
ON = "on"


class Disclosure:
    """What one visitor has been shown of one run; it is never hidden again."""

    def __init__(self) -> None:
        self.hidden = False
        self.voted = False  # the visitor has voted on the run: its vote is theirs

    def begin(self, hidden: bool, voted: bool = False) -> None:
        """Begin to show the run; after a vote nothing is hidden."""
        self.hidden, self.voted = hidden and not voted, voted

    def show(self) -> None:
        """Show everything from now on."""
        self.hidden = False

    def vote(self) -> None:
        """Note that the visitor has voted."""
        self.hidden, self.voted = False, True


def votes_first(cookies: Mapping[str, str]) -> bool:
    """Whether a visitor with these cookies has switched on "Vote first"."""
    return cookies.get(COOKIE) == ON


# What says nothing of the verdict. Anything else is left out, also what a page is given one day.
KEPT = (
    *("run", "over", "address", "kept", "changed", "stills", "prompt", "judge", "notes", "health"),
    *("fps", "grid", "ending", "turns"),
)


def hide_view(view: ViewJson) -> ViewJson:
    """Return the run's frames without the judge's words, a verdict, or anybody's vote."""
    named = {name: view[name] for name in KEPT if name in view}  # type: ignore[literal-required]
    kept: ViewJson = named  # type: ignore[assignment]
    kept["turns"] = [
        {
            "number": turn["number"],
            # The frames that came, not what the reply did
            "state": turn["state"].partition(" · ")[0] if turn["tiles"] else "",
            "foot": turn["foot"],
            "confidence": [],
            "labels": [],
            "live": turn["live"],
            "taken": turn["taken"],
            "tiles": turn["tiles"],
            "parts": [],
            "aside": [],
            "facts": None,
            "remarks": [],
        }
        for turn in view.get("turns", [])
    ]
    return kept


def hidden_transcript() -> TranscriptJson:
    """Return what stands in place of the raw text."""
    return {"passages": [[words.HIDDEN, words.HIDDEN_HELP]]}
