"""A tolerant parser for both protocols that never raises on a reply."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from vrthinker_core.protocols.labels import (
    Labels,
    original_end,
    original_offsets,
    read_labels,
    strip_invisible,
    to_narrow,
)
from vrthinker_core.protocols.segments import Action, ReplySegments, ReplySplitter, invention_start
from vrthinker_core.protocols.tool_calls import CallRules, read_calls
from vrthinker_core.text import encodable
from vrthinker_core.types import Dimension, Problem, ProblemKind, Reply

MINOR_PROBLEMS: Final = (
    ProblemKind.INVENTED,
    ProblemKind.IGNORED_CALL,
    ProblemKind.REPAIRED,
    ProblemKind.BAD_CONFIDENCE,
)
"""Problems that leave a reply usable."""


def by_severity(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first problem of each kind, the minor ones last."""
    found: dict[ProblemKind, Problem] = {}
    for problem in sorted(problems, key=lambda problem: problem.kind in MINOR_PROBLEMS):
        found.setdefault(problem.kind, problem)
    return tuple(found.values())


def reason(problems: Sequence[Problem], otherwise: str) -> str:
    """Return the detail of the first non-minor problem, else `otherwise`."""
    return next(
        (problem.detail for problem in problems if problem.kind not in MINOR_PROBLEMS), otherwise
    )


def retry_text(problems: Sequence[Problem], forms: str) -> str:
    """Return the message after a reply without answer or call.

    The judge reads this text. `forms` are the accepted ends of a reply.
    """
    why = reason(problems, "A recommended answer does not end the comparison.")
    return (
        f"Your last reply could not be used. {why} Reply again and end with {forms}, where each "
        "label is 0, 1 or 2."
    )


# The last answers of a reply are read; a judge at 2,048 tokens cannot write more
MAX_ANSWERS: Final = 200

_CUT_OFF: Final = Problem(ProblemKind.TRUNCATED, "The reply was cut off by the token limit.")
_CUT_ANSWER: Final = Problem(ProblemKind.TRUNCATED, "The reply was cut off inside its answer.")
_EMPTY: Final = Problem(ProblemKind.EMPTY, "The reply is empty.")
_NO_ACTION: Final = Problem(ProblemKind.NO_ACTION, "The reply holds neither an answer nor a call.")
_IGNORED: Final = Problem(
    ProblemKind.IGNORED_CALL, "A call stood beside the final answer and was ignored."
)
_INVENTED: Final = Problem(
    ProblemKind.INVENTED,
    "The judge went on to invent what it would be told; that part was cut away.",
)


def read_reply(text: str, rules: CallRules, *, cut: bool = False) -> Reply:
    """Return the best reading of `text` under a protocol's rules.

    `cut` means that the token limit ended the reply, not the judge.
    """
    visible, narrow, end = _own_part(text)
    if end is not None:
        text, cut = text[: original_end(text, end)], False
    extra = [] if end is None else [_INVENTED]
    if not narrow.strip():
        return Reply(text, problems=(_EMPTY, *extra))
    return _read(text, ReplySplitter(visible, narrow, cut=cut).split(), rules, extra, cut=cut)


def label_places(text: str, *, cut: bool = False) -> dict[Dimension, int]:
    """Return the offsets in `text` of the digits that gave the labels.

    The labels are those of `read_reply`. If digits repeat a label, the first one counts.
    """
    visible, narrow, end = _own_part(text)
    read = _read_answers(ReplySplitter(visible, narrow, cut=cut and end is None).split().actions)
    if not read:
        return {}
    action, labels = _best_answer(read)
    ordered = sorted(labels.places.items(), key=lambda item: item[1])
    offsets = original_offsets(text, [action.start + place for _, place in ordered])
    return {dimension: offset for (dimension, _), offset in zip(ordered, offsets, strict=True)}


def _own_part(text: str) -> tuple[str, str, int | None]:
    """Return (visible text, narrow text, end) of the judge's own part.

    The narrow text is the visible text made narrow. `end` is the offset at which the judge began to
    invent its environment, else None.
    """
    visible = strip_invisible(text)
    narrow = to_narrow(visible)
    end = invention_start(narrow)
    return visible[:end], narrow[:end], end


def _read(
    text: str, segments: ReplySegments, rules: CallRules, extra: list[Problem], *, cut: bool
) -> Reply:
    calls = [action for action in segments.actions if action.kind == "call"]
    wants, call_problems = read_calls(calls, rules, cut=cut)
    labels, final, answer_problems = _answer(segments.actions, cut=cut)
    if not segments.actions:
        extra = [*([_CUT_OFF] if cut else []), _NO_ACTION, *extra]
    elif cut and segments.unfinished_reasoning:
        extra = [_CUT_OFF, *extra]
    if calls and final and labels is not None and labels.verdict.whole:
        extra = [_IGNORED, *extra]
    verdict, confidence = (labels.verdict, labels.confidence) if labels else (None, None)
    problems = by_severity([*call_problems, *answer_problems, *extra])
    return Reply(
        text, segments.snapshot, segments.think, wants, verdict, confidence, final, problems
    )


def _answer(actions: Sequence[Action], *, cut: bool) -> tuple[Labels | None, bool, list[Problem]]:
    """Return (labels, whether they are final, problems) of the answer that counts."""
    read = _read_answers(actions)
    if not read:
        return None, False, []
    action, labels = _best_answer(read)
    problems = _with_cut(action, labels, cut=cut)
    if action.kind == "recommend":
        broken = next(((a, found) for a, found in read if a.kind == "final"), None)
        problems += _with_cut(*broken, cut=cut) if broken else []
    return labels, action.kind == "final", problems


def _read_answers(actions: Sequence[Action]) -> list[tuple[Action, Labels]]:
    """Return the answers with their labels, the last one first."""
    answers = [action for action in actions if action.kind != "call"][-MAX_ANSWERS:]
    return [(action, read_labels(action.body)) for action in reversed(answers)]


def _best_answer(read: Sequence[tuple[Action, Labels]]) -> tuple[Action, Labels]:
    """Return the answer that counts.

    A complete answer comes before an incomplete one, then any label before none, then a final
    answer before a recommended one, then the last answer.
    """
    return max(read, key=lambda pair: _answer_rank(*pair))


def _answer_rank(action: Action, labels: Labels) -> tuple[bool, bool, bool]:
    has_labels = not any(problem.kind is ProblemKind.EMPTY_ANSWER for problem in labels.problems)
    return labels.verdict.whole, has_labels, action.kind == "final"


def _with_cut(action: Action, labels: Labels, *, cut: bool) -> list[Problem]:
    """Return an answer's problems; a cut that cost labels comes first."""
    lost = (
        cut
        and not action.closed
        and any(problem.kind is ProblemKind.MISSING_DIMS for problem in labels.problems)
    )
    return [*([_CUT_ANSWER] if lost else []), *labels.problems]


def to_expected(reply: Reply) -> dict[str, object]:
    """Return the values of a reading, named as in the conformance cases."""
    found: dict[str, object] = {"kind": reply.kind}
    labels = reply.verdict.labels if reply.verdict is not None else {}
    if reply.kind in ("answer", "recommend"):
        found["answer"] = labels
    elif reply.kind == "invalid":
        found |= {"error": reply.problems[0].kind.value, "partial": labels}
    elif reply.wants is not None:
        found |= {"indices": list(reply.wants.indices), "truncated": reply.wants.truncated}
        found |= {"recommend": labels} if reply.verdict is not None and reply.verdict.whole else {}
    if reply.wants is not None:
        found["dropped"] = list(reply.wants.dropped)
    if reply.confidence is not None:
        found["confidence"] = reply.confidence
    return found | {"think": encodable(reply.think), "snapshot": encodable(reply.snapshot)}


# A point inside a number ends no sentence
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]?")
_NAMES = {
    Dimension.TA: (r"\bTA\b", r"text[- ]alignment|\balign|\bprompt", r"\bdescri(?:be|ption)"),
    Dimension.VQ: (
        r"\bVQ\b",
        r"visual[- ]quality|picture quality|image quality",
        r"(?<!motion )(?<!motion-)\bquality|\bart[ei]fact|\bblur|\bsharp|\bnois[ey]|\bclear",
    ),
    Dimension.MQ: (
        r"\bMQ\b",
        r"motion[- ]quality|\bmotion\b|\bmovement",
        r"\bsmooth|\bjerk|\bflicker|\bjitter|\bjumps?\b|\bstutter|\bmoves?\b",
    ),
    Dimension.OA: (
        r"\bOA\b",
        r"\boverall\b|\bin all\b",
        r"\b(?:every|each|all(?: four)?) dimensions?\b",
    ),
}
"""Words that show that a sentence is about a dimension, the surest first."""
_SURENESS = {
    dimension: [re.compile(each, re.IGNORECASE) for each in words]
    for dimension, words in _NAMES.items()
}
_FRAMES = re.compile(
    r"(?:\bframes?|\bind(?:ex|ices)|#)\s*((?:\d{1,9}(?:\s*(?:,|and|to|-|–|&|#)\s*)*)+)",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"(?<!\bvideo )(?<!\bvideos )(?<!\bvideo \d and )(?<!\bvideos \d and )(?<![\w.,:%=/-])\d{1,9}"
    r"(?![\w%=/:]|[.,]\d|\s(?:%|px|s|ms|fps|pixels?|seconds?|percent|frames?|times?)(?!\w))",
    re.IGNORECASE,
)
"""A number that stands alone: no part of a label, a time, a share or a video's name."""
_MAX_TEXT = 20_000  # Characters that are read, from the end of a reply
_MAX_SENTENCE = 400


def find_sentence(dimension: Dimension, texts: Iterable[str]) -> str:
    """Return the last sentence about the dimension, or "".

    The first text with such a sentence counts. A sentence with the dimension's abbreviation ("VQ:
    ...") comes first, then one with its name, then one with a word about it.
    """
    return next(
        (sentence for text in texts for sentence in _sentences_about(dimension, text[-_MAX_TEXT:])),
        "",
    )


def frame_numbers(sentence: str, shown: Collection[str]) -> list[int]:
    """Return the frames among those `shown` that a sentence names.

    Examples: "frames 10, 60 and 90", "#16", "between 14 and 18".
    """
    called = [
        (match.start(1) + digits.start(), digits[0])
        for match in _FRAMES.finditer(sentence)
        for digits in _digits(match[1])
    ]
    bare = [(match.start(), match[0]) for match in _BARE.finditer(sentence)]
    numbers = [str(int(digits)) for _, digits in sorted({*called, *bare})]
    return [int(number) for number in dict.fromkeys(numbers) if number in shown]


def _digits(text: str) -> Iterator[re.Match[str]]:
    return re.finditer(r"\d+", text)


def _sentences_about(dimension: Dimension, text: str) -> Iterator[str]:
    sentences = [sentence.strip() for sentence in reversed(_SENTENCE.findall(text))]
    for expression in _SURENESS[dimension]:
        yield from (
            sentence[:_MAX_SENTENCE] for sentence in sentences if expression.search(sentence)
        )
