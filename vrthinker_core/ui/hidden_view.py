"""A run of which the judge's words and labels are hidden: nothing of them is sent to the browser."""

from collections.abc import Mapping

from vrthinker_core.ui import words
from vrthinker_core.ui.page_json import TranscriptJson, TurnViewJson, ViewJson

COOKIE = "vote_first"  # set by the page's own switch (`ballot.js`): the server knows it before the first word is sent
ON = "on"


class Disclosure:
    """What one visitor has been shown of one run. What has been shown once is never hidden again."""

    def __init__(self) -> None:
        self.hidden = False
        self.voted = False  # the visitor has voted on the run: its vote is theirs

    def begin(self, hidden: bool, voted: bool = False) -> None:
        """The run is about to be shown. `voted`: the visitor has voted on it before, so that there is nothing to hide."""
        self.hidden, self.voted = hidden and not voted, voted

    def show(self) -> None:
        """Show everything from now on."""
        self.hidden = False

    def vote(self) -> None:
        """The visitor has voted."""
        self.hidden, self.voted = False, True


def votes_first(cookies: Mapping[str, str]) -> bool:
    """Whether a visitor with these cookies has switched on "Vote first"."""
    return cookies.get(COOKIE) == ON


KEPT = (
    *("run", "over", "address", "kept", "changed", "stills", "prompt", "judge", "notes", "health"),
    *("fps", "grid", "ending", "turns"),
)
"""What says nothing of the verdict. What is not named here is left out, so that what a page is given one day stays hidden, too."""


def hide_view(view: ViewJson) -> ViewJson:
    """The run with its frames, and without a word of the judge, a verdict, or anybody's vote."""
    kept: ViewJson = {name: view[name] for name in KEPT if name in view}  # type: ignore[literal-required, assignment]
    kept["turns"] = [_hide_turn(turn) for turn in view.get("turns", [])]
    return kept


def _hide_turn(turn: TurnViewJson) -> TurnViewJson:
    state = (
        turn["state"].partition(" · ")[0] if turn["tiles"] else ""
    )  # the frames that came, not what the reply did
    return {
        "number": turn["number"],
        "state": state,
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


def hidden_transcript() -> TranscriptJson:
    """What stands in place of the raw text."""
    return {"passages": [[words.HIDDEN, words.HIDDEN_HELP]]}
