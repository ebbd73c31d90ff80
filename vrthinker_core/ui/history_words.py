"""What the page says of the runs that are kept."""

from typing import TYPE_CHECKING

from vrthinker_core.types.events import StopReason
from vrthinker_core.types.wording import DEMO_RUN, NOT_SWAP_TESTED
from vrthinker_core.ui import words

if TYPE_CHECKING:  # `run_store` imports this module
    from vrthinker_core.ui.run_store import RunRecord

TAB = "Your runs"
NO_SUCH_RUN = "This run is gone, or belongs to another visitor. Compare again, or open its trace."
GOES_ON = "Goes on"
NOT_KEPT = "This server keeps no runs. Save the trace of a run that you want to keep."
KEPT = "Only you see these runs. Each is kept for {}, its videos as long as there is room."
LIST = {
    "none": "Your runs appear here when you compare two videos.",
    "delete": "Delete",
    "deleteRun": "Delete this run: {}",
    "deleteQuestion": "Delete this run, with the link to it?",
    "deleteIt": "Delete it",
    "keepIt": "Keep it",
    "deleteAll": "Delete all runs",
    "question": "Delete all your runs, with the links to them?",
    "yes": "Delete all",
    "no": "Keep them",
    "deleted": "Deleted.",
    "noPrompt": "No prompt",
    "unreachable": "The server did not answer. Try again.",
}


def kept_for(seconds: float) -> str:
    """Say how long each run is kept, and that nobody else sees it."""
    hours = seconds / 3600
    return KEPT.format("a day" if hours == 24 else f"{hours:g} {'hour' if hours == 1 else 'hours'}")


def outcome(record: "RunRecord") -> str:
    """Say what became of a run, by its verdict if possible."""
    if record.outside_scope:
        return DEMO_RUN
    if record.judged:
        return words.winner_line(record.overall, record.order)
    if record.ending is None:
        return "Cut off before it ended"
    ends = {StopReason.CANCELLED: "Stopped", StopReason.FAILED: "Failed"}
    return ends.get(record.ending, words.NO_VERDICT)


def unchecked(record: "RunRecord") -> str:
    """Say that a verdict's order was not checked; else ""."""
    return NOT_SWAP_TESTED if record.judged and record.order is None else ""
