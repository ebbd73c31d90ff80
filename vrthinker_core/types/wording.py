"""Names and sentences about a run that page and terminal share."""

from collections import Counter
from collections.abc import Iterable, Sequence

from vrthinker_core.types.events import Finished, Started, StopReason, Turn
from vrthinker_core.types.messages import Dimension, Preference
from vrthinker_core.types.settings import setting
from vrthinker_core.words import count, dollars, duration, speed

DIMENSION_NAMES = dict(
    zip(Dimension, ("Text alignment", "Motion quality", "Visual quality", "Overall"), strict=True)
)

LABEL_NAMES = {
    Preference.TIE: "tie",
    Preference.FIRST: "video 1",
    Preference.SECOND: "video 2",
    None: "not said",
}
"""Labels as words within a sentence. None is a label that the judge did not give."""

TAKEN_OVER = "taken over"  # A branch's turn that comes from its origin
BRANCH = "A branch of another run: {}."

CONTROL = "A control: the frames after a call were drawn at random, whatever the judge asked for."
SIDES_SWAPPED = (
    "The same pair with its sides swapped: what the judge calls video 1 here is your video 2, and "
    "the other way round."
)

OUTSIDE_SCOPE = "No verdict: this judge cannot judge real videos."
OUTSIDE_ADVICE = "Its words are no opinion on these videos: choose another judge."
ODD_PROMPT = "No verdict: this judge does not understand this prompt."
ODD_PROMPT_ADVICE = 'Write as in "A red cube moves left across the sand", or choose another judge.'
ODD_NOTES = "No verdict: this judge misread this pair."
ODD_NOTES_ADVICE = "Compare again with temperature 0, or choose another judge."
OTHER_JUDGES = "Others are hf:qunwang13/vrthinker on a GPU, and server:URL#MODEL."
DEMO_RUN = "Demo run, no verdict"  # The short form of `outside_words`, for a list
SCRIPTED = "Scripted example"
SCRIPTED_HELP = "A person wrote these replies to show how a judge works. No model judged this pair."
NO_RELIABLE_WINNER = "No reliable winner: swapping the sides changed it."
NOT_SWAP_TESTED = "asked in one order only"
SAME_IN_BOTH = "✓ the same in both orders"

WHY_NO_VERDICT = {
    StopReason.NO_ANSWER: "the judge's answer could not be read",
    StopReason.TURN_LIMIT: "the judge used all its turns without a final answer",
    StopReason.TOKEN_LIMIT: "the judge's reply was cut off before it answered",
    StopReason.CONTEXT_FULL: "the conversation is longer than the judge's context",
    StopReason.CANCELLED: "the run was stopped",
    StopReason.FAILED: "the comparison failed",
}


def order_unchecked(second: Finished | None) -> str:
    """Explain why the first verdict stands alone; `second` is None if unfinished."""
    if second is None:
        return "Order not checked: the second run was cut off."
    if second.outside_scope:
        return "Order not checked: with the sides swapped the judge could not read these videos."
    reason = second.error or WHY_NO_VERDICT.get(second.stop, "the judge gave no verdict")
    return f"Order not checked: {reason.rstrip('.')}."


# A label's probability is shown only below this value: a higher one looks like a certainty
TELLING = 0.9


def branch_name(started: Started) -> str:
    """Return the name of a branch, or "". Example: "from turn 2, with frames 4, 9"."""
    branch = started.branch
    if branch is None:
        return ""
    origin, parts = branch.origin, []
    if branch.no_tool and not branch.frames:
        parts.append(f"without the tool from turn {branch.turn}")
    elif branch.turn > 1:
        parts.append(f"from turn {branch.turn}")
    if branch.frames:
        parts.append(f"with frames {', '.join(map(str, branch.frames))}")
        parts += ["without the tool"] if branch.no_tool else []
    if started.settings.window != origin.settings.window:
        parts.append(f"{setting('window').label.lower()} {started.settings.window}")
    parts += [f"judge {started.judge}"] if started.judge != origin.judge else []
    parts += ["another prompt"] if started.prompt != origin.prompt else []
    return ", ".join(parts) or "the same again"


def turn_figures(turn: Turn) -> str:
    """Return tokens and time of a turn; unknown figures are left out."""
    completion = turn.completion
    parts = []
    if completion.prompt_tokens is not None:
        reused = f" ({completion.reused_tokens:,} reused)" if completion.reused_tokens else ""
        parts.append(f"{completion.prompt_tokens:,} in{reused}")
    if completion.new_tokens is not None:
        parts.append(f"{completion.new_tokens:,} out")
    if completion.seconds:
        parts.append(duration(completion.seconds))
    if completion.seconds and completion.new_tokens:
        parts.append(speed(completion.new_tokens / completion.seconds))
    return " · ".join(parts)


def pairs_told(halves: Sequence[int]) -> str:
    """Return how many pairs and single frames these are: 2 or 1 for each; "" for none."""
    counts = (halves.count(2), "pair"), (halves.count(1), "single frame")
    return " and ".join(count(many, noun) for many, noun in counts if many)


def looked_at(turns: Iterable[Turn]) -> str:
    """Return how many pairs and single frames came in all turns; "" for none."""
    slots = Counter((turn.number, frame.ref.slot) for turn in turns for frame in turn.frames)
    return pairs_told([*slots.values()])


def totals(turns: Iterable[Turn], tokens: bool = True) -> str:
    """Return pairs, tokens and dollars of all turns, as far as known."""
    turns = tuple(turns)
    done = [turn.completion for turn in turns]
    read = sum((each.prompt_tokens or 0) - (each.reused_tokens or 0) for each in done)
    written = sum(each.new_tokens or 0 for each in done)
    costs = [each.cost for each in done if each.cost is not None]
    shown = [told] if (told := looked_at(turns)) else []
    if read > 0 and tokens:
        shown.append(f"{count(read, 'token')} read{f', {written:,} written' if written else ''}")
    elif written and tokens:
        shown.append(f"{count(written, 'token')} written")
    if costs:
        shown.append(f"about {dollars(sum(costs))}")
    return " · ".join(shown)
