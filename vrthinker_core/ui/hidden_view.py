"""A run of which the judge's words and labels are hidden: nothing of them is sent to the browser."""

from vrthinker_core.ui import vote_words
from vrthinker_core.ui.page_json import TranscriptJson, TurnViewJson, ViewJson

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
    return {"passages": [[vote_words.HIDDEN, vote_words.HIDDEN_HELP]]}
