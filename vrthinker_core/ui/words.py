"""Labels and sentences of the page."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from vrthinker_core.backends import NANO_LIMITS, NANO_NAME
from vrthinker_core.backends.checkpoint_files import CORRECTION, TOLD
from vrthinker_core.drawn.notes import HARDLY, JUMPS, MOVES, ODDLY, outside_words
from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo, Dimension, FrameSelection, Preference, ProblemKind, Side
from vrthinker_core.types.events import Finished, Started, StopReason, Turn
from vrthinker_core.types.messages import LabelProbabilities, Verdict
from vrthinker_core.types.order import OrderCheck, OrderEffect
from vrthinker_core.types.wording import (
    DEMO_RUN,
    DIMENSION_NAMES,
    LABEL_NAMES,
    NOT_SWAP_TESTED,
    SAME_IN_BOTH,
    SCRIPTED,
    SIDES_SWAPPED,
    TELLING,
    WHY_NO_VERDICT,
    pairs_told,
)
from vrthinker_core.words import NUMBERS, ORDINALS, count, percent

TITLE = "VR-Thinker"
CLAIM = "Which video follows the prompt better, and why."

TAB_FRAMES = "All frames"
OPEN_TRACE = "Open a saved trace"
# By the first word of a folder's name
EXAMPLE_ROWS = {
    "real": "Examples",
    "think": "Test scenes with known answers",
    "protocol": "How else a run can go",
}
FOLDED = "protocol"  # a row for those who know the rest
HERO = {
    "question": "One of these two freezes. Can you see when?",
    "answer": "Video 1 stands still from 0.7 to 1.7 s",
    "watch": "▶ Watch the judge find it",
}

READY = "Add two videos and the prompt they were made from."
ONE_VIDEO = "One video is here. Add the other one."
TWO_VIDEOS = "Both videos are here. Write their prompt and compare."
READY_TO_COMPARE = "Ready to compare."
NOT_STARTED = "Not started. What is missing or wrong is marked."
UPLOADING = "The videos are still being uploaded. Compare when both are here."
LOADING = "Loading the judge. This happens once."
WAITING = "Waiting"
OPENING = "Opening both videos."
MISSING_VIDEO = "Add video {}."
OTHER_VIDEO = "Choose another file, or convert this one to MP4."
BUSY = "Too many people are waiting. Try again in a minute."
MANY_EVENTS = "Too much of what you asked for still waits. Wait until some of it is answered."
MANY_FOLLOW = "Many pages show this run, so this one looks at it every few seconds."
LIST_BUSY = "The list of runs is in use by something else. Try again in a minute."
MANY_BYTES = (
    "Your files take 500 MB here, the most that one visitor may keep. "
    "Unused ones go after ten minutes; try again then."
)
NO_ROOM_NOW = "There is no room here to keep this file; try again in ten minutes."
GONE = (
    "The server no longer has these videos. Add them again; if that does not help, reload the page."
)
LEAD = (
    "A judge watches two videos of one prompt, asks to see more frames, and says which is better, "
    "and why."
)
LINKS = {
    "Paper": "https://arxiv.org/abs/2510.10518",
    "Model (paired)": "https://huggingface.co/qunwang13/vrthinker",
    "Model (concat)": "https://huggingface.co/qunwang13/vr-thinker",
    "Code": "https://github.com/qunzhongwang/vr-thinker",
}
# What an empty page shows
INTRODUCTION: Mapping[str, Any] = {
    "steps": [
        "Add two videos that were made from the same prompt.",
        "Write the prompt and press Compare.",
        "Read along: its frames, its thoughts, its verdict. A click on any frame shows it in both videos.",
    ],
    "costs": (
        "It costs nothing, except with a hosted judge. Your videos stay on {}; a judge elsewhere is "
        "sent only the frames that it looks at."
    ),
}
# The strip under the rail, which tells what is certain of both videos without any judge
MEASURED = {
    "name": "Measured",
    "help": " Change from frame to frame, without a judge.",
    "waits": "Measuring both videos.",
    "nothing": "Nothing certain was found automatically.",
}
BLIND_MODE = {
    "begin": "Vote blind",
    "leave": "Leave blind mode",
    "on": "You vote blind: names and verdicts are hidden until you vote.",
    "help": "Pair after pair, names hidden: vote, then read the verdict.",
    "next": "Next pair ↵",
    "last": "That was the last pair.",
}
# When a proxy serves the page at another address than its server knows
ELSEWHERE = "This page is at {}, which its server does not know: start it with --root-path {}."
NEVER_ENDED = "Cut off before it ended"
SWAPPED = "Sides swapped. Compare again for a verdict on this order."
CHANGED = "The videos have changed. Compare again for a verdict on these."
REMOVED = "Video {} was removed."
EMPTIED = "Removed"  # in the box itself
NO_ADDRESS = "Give the address of a video file, as in https://example.org/video.mp4."
NO_VERDICT = "No verdict"
NO_SUCH_LINK = "The run behind this link was deleted, or is too old. Open its trace file instead."
NO_RUN = "This run is gone. Compare again."
NO_ROOM = "No link was made: the server's disk is full. Download the trace instead."
NO_FRAMES = "The pairs of frames that the judge looks at appear here, turn by turn."
VIDEOS_GONE = "Thumbnail: the videos are gone."
VIDEO_GONE = "Video {} as a thumbnail: the video is gone."
NO_ROOM_FOR_FRAMES = "Thumbnail: the server has no room for larger pictures of this run."
MANY_LOOK_CLOSER = "Thumbnail: many people look closer just now. Open this pair again in a moment."
COPY_SHOWN = "Browsers cannot play this video: a copy is shown, and the judge reads the original."
NO_COPY = "The player may stay empty; the judge reads the original."  # behind the reason
MAX_NAME = 80  # characters of a file's or a judge's name that a sentence holds

# The chip, and its dialog
DEMO_JUDGE = "Demo judge"
GENERAL = "general model, not trained to judge"
TRAINED = {True: "trained to judge videos", False: GENERAL}
FREE, TOKENS = "free", "billed by tokens"
SEEN_HERE, SEEN_BY_SERVER = "frames stay on this machine", "frames stay on this server"
SEEN_BY, SEEN_ELSEWHERE = "{} gets the frames, never the videos", "another server gets the frames"
HERE_TOO = "{} on this machine"
USE = "Compare with it"
SERVER_GONE = "Its server does not answer any more: start it again, then open this list again."
WRONG_KEY = "The server does not accept this key."
NO_SUCH_JUDGE = "This judge is not offered here. Close this list and open it again."
KEY_FIELD = "this page"
NO_KEY = "Type your key for this host."
NO_KEY_HERE = "A key can only be typed on a page with https, or on this machine."
NO_MODEL = "Choose a model."
KEY_GONE = "The key of this judge was forgotten. Choose the judge again, or another one."
CHOOSER = {
    "judge": "Judge: {}",
    "title": "Which judge?",
    "ready": "Ready now",
    "noneReady": "Nothing that judges real videos runs here yet.",
    "hosts": "With a key",
    "host": "Host",
    "model": "Model",
    "modelHelp": "as the host names it",
    "key": "Key",
    "try": "Try the key",
    "use": USE,
    "keyHelp": "The key stays in the memory of this page's session, and is gone when you leave.",
    "keysAt": "Get one at",
    "held": "✓ Your key works. This page alone holds it.",
    "untried": "The first run tries your key. This page alone holds it.",
    "forget": "Forget key",
    "unsafe": NO_KEY_HERE,
    "none": "No key yet, no GPU",
    "ways": [
        ["Ollama", "ollama pull qwen2.5vl:7b\nOLLAMA_CONTEXT_LENGTH=32768 ollama serve"],
        ["LM Studio", "lms get qwen2.5-vl-7b\nlms server start"],
        ["Free keys", "Google AI Studio, and models of OpenRouter whose names end in :free."],
    ],
    "waysHelp": "Start one of these beside this page, then open this list again.",
    "gpu": "Needs a GPU",
    "gpuHelp": "The paper’s own model: trained to judge videos, free, frames stay on this machine.",
    "demo": "Demo",
    "chosen": "In use",
    "asking": "One moment.",
    "close": "Close",
}


def judge_facts(
    real: bool, trained: bool, cost: str, seen: str, seconds: float | None = None
) -> tuple[str, ...]:
    """Return the facts of a row. `seconds`: how long the last pair took here."""
    took = [] if seconds is None else [f"about {max(1, round(seconds))} s a pair here"]
    return TRAINED[trained] if real else "drawn scenes only", cost, seen, *took


def place_in_queue(before: int) -> str:
    """Return `You are third; two comparisons are before yours.`; "" for first."""
    if before <= 0:
        return ""
    if before >= len(ORDINALS):
        return f"You are number {before + 1}; {before} comparisons are before yours."
    runs = f"{NUMBERS[before]} comparison{' is' if before == 1 else 's are'}"
    return f"You are {ORDINALS[before]}; {runs} before yours."


def judge_name(name: str) -> str:
    """Return a judge's name as a sentence holds it."""
    return DEMO_JUDGE if name == NANO_NAME else name[:MAX_NAME] + "…" * (len(name) > MAX_NAME)


def visitors_notes(notes: Iterable[str], *known: str) -> list[str]:
    """Return a judge's notes without commands, `known` ones, and what `judge_line` says."""
    shown = (note.removesuffix(CORRECTION).rstrip() for note in notes)
    return [note for note in shown if note not in (TOLD, *known)]


def judge_line(name: str, notes: Sequence[str] = (), verb: str = "says") -> str:
    """Return who says it, and what that is worth as far as the judge's `notes` tell."""
    worth = " (general model)" if TOLD in " ".join(notes) else ""
    return f"{verb} {judge_name(name)}{worth}"


def next_step(first: object, second: object, prompt: object) -> str:
    """Return what a person does next."""
    if first and second:
        return READY_TO_COMPARE if str(prompt or "").strip() else TWO_VIDEOS
    return ONE_VIDEO if first or second else READY


def changed_videos(sides: Collection[Side], swapped: bool, names: Sequence[str]) -> str:
    """Say which judged videos (`names`) the players no longer hold; "" if they hold both."""
    if swapped:
        return "This run judged these videos with the sides swapped."
    told = {int(side): names[side - 1][:MAX_NAME] for side in sides}
    if len(told) == 2:
        return f"This run judged other videos: {told[1]} and {told[2]}."
    return "".join(f"This run judged another video {side}: {name}." for side, name in told.items())


# One line of help each, in the order in which a verdict is shown.
DIMENSION_HELP = {
    Dimension.OA: "All things weighed together: which video a person would rather be given.",
    Dimension.TA: "How faithfully a video shows what the prompt says.",
    Dimension.VQ: "Beauty and cleanness of the picture: artefacts, blur, distortion, flicker.",
    Dimension.MQ: "Smooth and natural motion: no jitter, no jumps, nothing that changes by itself.",
}

NO_DIFFERENCE, EQUAL = "No difference found", "Equal overall"


def headline(started: Started | None, finished: Finished, check: OrderCheck | None) -> str:
    """Return a run's outcome in one line. `check`: both its orders."""
    if started and finished.outside_scope:
        return outside_words(started)[0].rstrip(".")
    if finished.scripted:
        return SCRIPTED
    if finished.verdict is None:
        return ": ".join(filter(None, [NO_VERDICT, WHY_NO_VERDICT.get(finished.stop)]))
    overall = check.overall if check else None
    if finished.verdict.OA is Preference.TIE and overall is not OrderEffect.FLIPS:
        return tie_line(finished.verdict)
    return winner_line(finished.verdict.OA, overall)


def winner_line(label: Preference | None, overall: OrderEffect | None) -> str:
    """Return the overall label in one line, unless swapping flips it."""
    if overall is OrderEffect.FLIPS:
        shown = "first" if label is Preference.FIRST else "second"
        return f"No reliable winner: it chose the side shown {shown} both times"
    if label in (Preference.FIRST, Preference.SECOND):
        return f"Video {int(label)} is better"
    return EQUAL if label is Preference.TIE else "No overall verdict"


def tie_line(verdict: Verdict) -> str:
    """Return a tie in one line, with the parts in which a video is better."""
    nouns = {Dimension.TA: "match with the prompt", Dimension.VQ: "picture", Dimension.MQ: "motion"}
    labels, clauses = dict(verdict), list[str]()
    for side in (Preference.FIRST, Preference.SECOND):
        better = [noun for each, noun in nouns.items() if labels.get(each) is side]
        verb = "is" if len(better) == 1 else "are"
        verb += "" if clauses else " better"
        clauses += [f"video {int(side)}'s {' and '.join(better)} {verb}"] * bool(better)
    if clauses:
        return f"{EQUAL}: {', '.join(clauses)}"
    return NO_DIFFERENCE if set(labels.values()) == {Preference.TIE} else EQUAL


def label_name(label: Preference | None, flips: bool = False) -> str:
    """Return one dimension's label on a card, unless swapping flips it."""
    if flips:
        return "Flips"
    return "No difference" if label is Preference.TIE else LABEL_NAMES[label].capitalize()


# Below Compare: what the chosen judge can, or that it cannot judge the pair that is there
CHOOSE_JUDGE = "Choose a judge…"
DEMO_CANNOT = {
    "about": ["Demo judge.", NANO_LIMITS],
    "told": "The demo judge cannot judge real videos.",
    "choose": CHOOSE_JUDGE,
    "go": "Compare",
}
OUTSIDE_WAYS = "Compare with a judge that can", "Vote yourself"
DEMO_WROTE = "What the demo judge wrote"

LABEL_HELP = {
    Preference.TIE: "The judge sees no difference here.",
    Preference.FIRST: "The judge finds video 1 better here.",
    Preference.SECOND: "The judge finds video 2 better here.",
    None: "The judge did not say. A missing label is not a tie.",
}
FLIPPED_HELP = "Swapping the sides changed what the judge says here."


def both_labels(order: OrderCheck, dimension: Dimension) -> str:
    """Return a dimension's labels in both orders, "" if they are the same."""
    first, second = (label_name(dict(each).get(dimension)) for each in (order.first, order.second))
    if order[dimension] in (OrderEffect.NEVER_SAID, OrderEffect.STABLE):
        return ""
    return f"As given: {first}. Sides swapped: {second}."


CHECKING = "The judge compares the pair again with the sides swapped."
CHECK_HELP = (
    "Swap test: judges again with left and right exchanged. If the winner changes, do not trust it."
)
IN_SWAPPED = "Sides swapped: {}"
SWAPPED_NOTICE = f"{SIDES_SWAPPED} Colours and frames stand for your videos."
NOTHING_TO_CHECK = "There is no verdict to check. Compare two videos first."
JUDGED_BEFORE = "{} judged this pair before, in another run."
CHECK_BRANCH = (
    "A branch cannot be checked: its first turns belong to another run. Check its origin."
)
CHECK_NO_JUDGE = "{} gave this verdict and cannot be asked here, so its order cannot be checked. Compare again with another judge."

# What the order does to the overall label
ORDER_LINES = {
    None: NOT_SWAP_TESTED,
    OrderEffect.STABLE: SAME_IN_BOTH,
    OrderEffect.FLIPS: "asked in both orders",  # the headline says the rest
    OrderEffect.BECOMES_TIE: "a tie when the sides are swapped",
    OrderEffect.FROM_TIE: "no longer a tie when the sides are swapped",
    OrderEffect.SAID_ONCE: "said in one order only",
    OrderEffect.NEVER_SAID: "",
}


# How a run ended that was not judged to its end
ENDS = {StopReason.CANCELLED: "Stopped", StopReason.FAILED: "Failed"}


def ended(finished: Finished | None) -> str:
    """Return how a run ended."""
    if finished is None or finished.outside_scope:
        return DEMO_RUN if finished else NEVER_ENDED
    return {StopReason.ANSWERED: "Finished", **ENDS}.get(finished.stop, "Ended without an answer")


def end_notice(finished: Finished) -> str:
    """Return what the headline leaves to be said of a run's end, or ""."""
    if finished.error and not finished.outside_scope:
        is_video = finished.fault == VideoError.__name__
        return f"{finished.error} {OTHER_VIDEO}" if is_video else finished.error
    return "The turns so far are kept." if finished.stop in ENDS else ""


def verdict_caveats(finished: Finished) -> list[str]:
    """Return why a verdict is no free and complete final answer."""
    incomplete = finished.verdict is not None and not finished.verdict.whole
    caveats = {
        "Provisional: the judge recommended this and gave no final answer.": finished.provisional,
        "The judge was asked for its answer on its last turn.": finished.forced,
        "Incomplete: the judge left dimensions without a label.": incomplete,
    }
    return [caveat for caveat, holds in caveats.items() if holds]


def begins_with(clips: tuple[ClipInfo | None, ClipInfo | None]) -> str:
    """Say why the first frames came, and whether they look unlike the videos."""
    squeezed = any(" squeezed " in note for note in clip_notes(clips))
    return f"to begin with{', squeezed as the judge sees them' * squeezed}"


def clip_notes(clips: tuple[ClipInfo | None, ClipInfo | None]) -> list[str]:
    """Return health notes on both files; a shared one once."""
    first, second = (clip.notes if clip else () for clip in clips)
    return [
        *(f"Both videos: {note}" for note in first if note in second),
        *(f"Video 1: {note}" for note in first if note not in second),
        *(f"Video 2: {note}" for note in second if note not in first),
    ]


ALREADY_SHOWN = "Already shown: {}."
ASKED_FOR = "it asked for"


def frames_came(halves: Sequence[int], why: str) -> str:
    """Return how many frames come, and why. `halves`: 2 of a pair, 1 of a single frame."""
    came = pairs_told(halves)
    return f"{came} {why}" if came else "no new frames"


def request(new: Sequence[int], again: Sequence[int], *, is_pair: bool, is_open: bool) -> str:
    """Return what a reply asks for; `is_open`: it may go on. "" for nothing."""
    more = count(len(new), "more pair" if is_pair else "more frame")
    told = f"It wants {more}: " if new else "It wants to see again: "
    listed = " ".join(f"#{index}" for index in new or again) + (" …" if is_open else "")
    seen = ALREADY_SHOWN.format(", ".join(map(str, again))) if new and again else ""
    return f"{told}{listed} {seen}".rstrip() if new or again else ""


CONFIDENCE = (
    "confidence {} (concat)",
    "How sure the judge said it was, on the scale of concat: 1 low, 2 medium, 3 high, 4 very high, 5 confirmed.",
)
OWN_CONFIDENCE = (
    "confidence {} (the judge's own)",
    "How sure the judge said it was. The protocol paired has no scale for it.",
)
# What the built-in judge noted of a frame's motion
MOTIONS = {MOVES: "moves on", HARDLY: "stands still", JUMPS: "jumps", ODDLY: "moves oddly"}


def turn_summary(turn: Turn, asked: int) -> str:
    """Return what a turn's reply did, or how it was cut short; `asked`: for so many new frames."""
    reply = turn.reply
    if turn.cut_short:
        return turn.cut_short
    if reply.kind == "answer":
        return "final answer"
    if reply.kind == "tool" and reply.wants is not None:
        return f"asked for {asked} more" if asked else "asked to see frames again"
    if reply.kind == "recommend":
        return "recommended an answer"
    if reply.verdict is not None and reply.verdict.labels:
        return "incomplete answer"
    return "no usable answer or request"


def turn_remarks(turn: Turn) -> list[str]:
    """Return repairs, refusals and cuts of a turn, one sentence each."""
    ignored = _ignored_requests(turn.reply.wants) if turn.reply.wants is not None else []
    covered = {ProblemKind.NO_VALID_FRAMES} if ignored else set()
    remarks = [
        "The judge was asked to answer now." if turn.forced else "",
        *ignored,
        *(problem.detail for problem in turn.problems if problem.kind not in covered),
        *(f"Frame {frame.number}: {frame.note}" for frame in turn.frames if frame.note),
        turn.note,
    ]
    return list(dict.fromkeys(filter(None, remarks)))


def _ignored_requests(request: FrameSelection) -> list[str]:
    sentences, kept, dropped = [], len(request.indices), len(request.dropped)
    if dropped:
        named = ("nothing" if entry is None else str(entry)[:40] for entry in request.dropped[:12])
        entries = ", ".join(named) + (f" and {dropped - 12} more" if dropped > 12 else "")
        sentences.append(f"{count(dropped, 'request')} ignored, no such frame: {entries}.")
    if request.truncated:
        sentences.append(f"More was asked for than one call allows; the first {kept} were kept.")
    elif (repeated := request.asked - kept - dropped) > 0:
        sentences.append(f"{count(repeated, 'repeated request')} ignored.")
    return sentences


HIDDEN = "Hidden until you vote"
TOO_EARLY = "The run has not begun. Vote when the first frames are here."

ASIDE_HEADING = "Reasoning, aside ({:,} characters)"
ASIDE_HELP = (
    "What the judge thought beside its reply. It is kept, and never sent back to the judge."
)


def probability_words(
    label: Preference | None, probabilities: LabelProbabilities | None
) -> list[str]:
    """Return [percentage, meaning] of a label; [] if unknown or nearly certain."""
    if label is None or probabilities is None or probabilities[label] >= TELLING:
        return []
    share, rest = percent(probabilities[label]), [each for each in Preference if each is not label]
    others = ", ".join(f"{LABEL_NAMES[each]}: {percent(probabilities[each])}" for each in rest)
    meaning = (
        f"After all it had written before, the judge was {share} likely to write this label "
        f"({others}). That does not say how often such labels are right."
    )
    return [share, meaning]


NO_FOLDER = "There is no folder {}: name the --out folder of an evaluation, or a folder of traces."
EMPTY = "{} holds no results.jsonl and no trace yet: name the --out folder of an evaluation, or a folder of traces."
NO_RESULTS = (
    "{} holds no result of an evaluation: name the --out folder of `evaluate`, or remove the file."
)
LABELS_HIDDEN = "“Blind” is on, so labels and the judge's words are hidden here."
BROKEN_LINES = "{} of {} cannot be read: each stands as a row with its reason."
LEFT_FOLDER = "The trace of this row is outside the evaluation's folder, so it stays closed."
UNKNOWN = "There is no {} {}. There are: {}."

FILTERS = {
    "overall": "Disagrees overall",
    "any": "Disagrees anywhere",
    "failed": "Failed",
    "unsure": "Low confidence",
    "flips": "Flips when swapped",
}
FILTER_HELP = (
    "The judge gave another overall label than people, or than the data set.",
    "The judge gave another label than people, or than the data set, in at least one dimension.",
    "No verdict: the pair could not be judged, or the run ended without one.",
    "The judge said a confidence of 1 or 2, or its overall label has a probability below 0.6.",
    "With the sides swapped the judge prefers the other video, in at least one dimension.",
)
SORTS = {
    "row": "By row",
    "unsure": "Least confident first",
    "disagreement": "Largest disagreement first",
}
RUNS_LIST = {
    "filters": "Show only",
    "search": "Search the prompts",
    "sort": "Sort by",
    "refresh": "Refresh",
    "reading": "Reading the folder. Rows appear as they are read.",
    "none": "No row matches. Take away a filter, or search for something else.",
    "noPrompt": "No prompt",
    "judge": "Judge",
    "people": "People",
    "data_set": "Data set",
    "first": "First",
    "previous": "Previous",
    "next": "Next",
    "last": "Last",
    "previousRow": "Previous row",
    "nextRow": "Next row",
    "read": "read at {}",
    "unchecked": NOT_SWAP_TESTED,
    "flips": "flips",
    "pick": "Pick row {} for side by side",
    "picked": "{} of at most {} rows picked",
    "mostPicked": "{} rows are picked, which is the most.",
    "sideBySide": "Side by side",
    "allOfPrompt": "All {} of this prompt",
    "someOfPrompt": "{} of {} of this prompt",
    "clear": "Clear",
    "close": "Close",
    "alone": "Open alone",
    "loading": "Reading the trace.",
    "noLarger": "Thumbnail: open this row alone to see a larger picture.",
    "right": "right",
    "wrong": "wrong",
    "dimensions": [(each.value, DIMENSION_NAMES[each]) for each in DIMENSION_HELP],
    "kinds": list(zip(FILTERS.keys(), FILTERS.values(), FILTER_HELP, strict=True)),
    "sorts": list(SORTS.items()),
}

BRANCH_NO_RUN = "There is no run to branch from. Compare two videos first."
NO_VIDEOS = "The videos of this run are not here. Add them first."
NO_VIDEO = "Video {} of this run is not here. Add it first."
OTHER_INPUTS = "The inputs have changed since this run. Put them back, or compare again."
NO_JUDGE = "{} judged this run and cannot be asked here. Choose another judge, and turn 1."

# The labels of the form and the strip, by the names that the script knows
FORM = {
    "open": "What if…",
    "turn": "Try again from turn",
    "turnHelp": "Earlier turns stay as they are.",
    "frames": "with these frames",
    "framesHelp": "The judge's numbers, as in 4, 9. Empty: the frames it asked for.",
    "framesFirst": "Turn 1 always shows the same first frames.",
    "take": "Use the frame in the players",
    "noTool": "Make it answer now",
    "window": "Memory window",
    "judge": "Judge",
    "same": "As it was",
    "prompt": "Prompt",
    "promptLater": "Another prompt can only begin at turn 1.",
    "start": "Run",
    "close": "Close",
    "strip": "Origin and branches",
    "compare": "Another judge",
    "differs": "differs",
    "dimension": "Dimension",
}

NO_SUCH_RUN = "This run is gone, or belongs to another visitor. Compare again, or open its trace."
GOES_ON = "Goes on"
NOT_KEPT = "This server keeps no runs. Save the trace of a run that you want to keep."
HISTORY = {
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
}


def kept_for(seconds: float) -> str:
    """Say how long each run is kept, and that nobody else sees it."""
    hours = seconds / 3600
    told = "a day" if hours == 24 else f"{hours:g} {'hour' if hours == 1 else 'hours'}"
    return f"Only you see these runs. Each is kept for {told}, its videos as long as there is room."
