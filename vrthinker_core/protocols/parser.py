"""A tolerant parser for both protocols that never raises on a reply."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from vrthinker_core.protocols.segments import (
    Action,
    Labels,
    ReplySplitter,
    find_tags,
    original_offsets,
    own_part,
    read_labels,
)
from vrthinker_core.protocols.tool_calls import CallRules, read_calls
from vrthinker_core.types import Dimension, Problem, ProblemKind, Reply, Turn, Verdict
from vrthinker_core.types.messages import Completion, LabelProbabilities
from vrthinker_core.words import encodable

# Of a reply that is read: a judge writes far less, and a page reads the reply at each update
MAX_CHARACTERS = 100_000


def label_probabilities(
    completion: Completion, verdict: Verdict | None
) -> dict[Dimension, LabelProbabilities]:
    """Return the probabilities of each label in `verdict`.

    `verdict` was read from this completion. A label is left out if the backend does not tell its
    probabilities. If an answer says a label twice, the first digit counts: the second only repeats
    it. Never raises.
    """
    if verdict is None or not completion.label_tokens or len(completion.text) > MAX_CHARACTERS:
        return {}
    known = {token.offset: token.probabilities for token in completion.label_tokens}
    visible, narrow, end = own_part(completion.text)
    cut = completion.stop != "end" and end is None
    read = _read_answers(ReplySplitter(visible, narrow, cut=cut).split().actions)
    if not read:
        return {}
    action, labels = _best_answer(read)
    ordered = sorted(labels.places.items(), key=lambda item: item[1])
    offsets = original_offsets(completion.text, [action.start + place for _, place in ordered])
    said = zip((dimension for dimension, _ in ordered), offsets, strict=True)
    found = {dimension: known[offset] for dimension, offset in said if offset in known}
    return {each: found[each] for each, label in verdict if label is not None and each in found}


def verdict_probabilities(
    turns: Sequence[Turn], verdict: Verdict | None
) -> dict[Dimension, LabelProbabilities]:
    """Return label probabilities from the last turn that gave the verdict."""
    giving = (turn for turn in reversed(turns) if turn.reply.verdict == verdict)
    return next((label_probabilities(turn.completion, verdict) for turn in giving), {})


MINOR_PROBLEMS: Final = (
    ProblemKind.INVENTED,
    ProblemKind.IGNORED_CALL,
    ProblemKind.REPAIRED,
    ProblemKind.UNTAGGED,
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


_LABELS: Final = re.compile(
    r"""(?:\{\s*"(?:final[ _]?)?answer"\s*:\s*)?"""
    r"""(?:[\s,;|*_`"'•\-{(]*(?:\d[.)][ \t])?(?:[a-z][a-z ]{1,20}\()?(?:TA|MQ|VQ|OA|CF)[)*_`"'\s]*"""
    r"""[=:]+[\s*_`"']*[0-5](?!\w|[.%/]\d|[%/])[*_`"')]*){4,5}[\s.;|*_`})]*\Z""",
    re.IGNORECASE,
)
"""Nothing but labels, in prose, a list or JSON, up to the end."""
_ANSWER_LINE: Final = re.compile(
    r"""^[ \t]*(?:\#{1,6}[ \t]*)?[*_]{0,3}(?:(?:my|the)[ \t])?(?:final[ \t])?"""
    r"""(?:answer|verdict|judge?ment|labels)\b[*_]{0,3}[ \t]*(?:is\b)?:?[*_]{0,3}"""
    r"""|^[ \t]*```(?:json)?[ \t]*$""",
    re.IGNORECASE | re.MULTILINE,
)
_EXAMPLE: Final = re.compile(
    r"example|e\.g\.|for instance|format|template|placeholder|quot"
    r"|\b(?:form|would|could|if|should|must|says?|said|wrote|asked|instead|like|not)\b[^.!?]*\Z",
    re.IGNORECASE,
)
"""A line before labels that are an example or somebody else's."""


def _untagged_answer(narrow: str) -> Labels | None:
    """Return the labels with which a reply without actions ends, or None.

    They follow a line that says so, alone, outside the reasoning; every label is said.
    """
    own = narrow[max((tag.end for tag in find_tags(narrow) if not tag.opens), default=0) :][-2000:]
    for line in reversed(list(_ANSWER_LINE.finditer(own))):
        body = own[line.end() :].strip().removesuffix("```")
        before = own[: line.start()].rstrip().rpartition("\n")[2]
        if _LABELS.match(body) and body.count('"') % 2 == 0 and not _EXAMPLE.search(before):
            labels = read_labels(body)
            return labels if labels.verdict.whole and not labels.problems else None
    return None


def read_reply(text: str, rules: CallRules, *, cut: bool = False, trained: bool = True) -> Reply:
    """Return the best reading of `text` under a protocol's rules.

    `cut` means that the token limit ended the reply, not the judge. An answer without its tag
    counts for a judge that was not `trained` in the format (paper: the format reward is strict).
    """
    visible, narrow, end = own_part(text)
    extra: list[Problem] = []
    if end is not None:
        text, cut = text[: original_offsets(text, [end - 1])[0] + 1], False
        told = "The judge went on to invent what it would be told; that part was cut away."
        extra = [Problem(ProblemKind.INVENTED, told)]
    if not narrow.strip():
        return Reply(text, problems=(Problem(ProblemKind.EMPTY, "The reply is empty."), *extra))
    segments = ReplySplitter(visible, narrow, cut=cut).split()
    calls = [(each.body, each.cut_off) for each in segments.actions if each.kind == "call"]
    wants, problems = read_calls(calls, rules)
    final, verdict, confidence = False, None, None
    if read := _read_answers(segments.actions):
        action, labels = _best_answer(read)
        final, verdict, confidence = action.kind == "final", labels.verdict, labels.confidence
        problems += _with_cut(action, labels)
        broken = next((pair for pair in read if pair[0].kind == "final"), None)
        if action.kind == "recommend" and broken:
            problems += _with_cut(*broken)
    readable = not (cut or trained or segments.actions or segments.unfinished_reasoning)
    if readable and (untagged := _untagged_answer(narrow)):
        final, verdict, confidence = True, untagged.verdict, untagged.confidence
        told = "The answer stood without its tag and was read all the same."
        extra = [Problem(ProblemKind.UNTAGGED, told), *extra]
    elif not segments.actions:
        none = Problem(ProblemKind.NO_ACTION, "The reply holds neither an answer nor a call.")
        extra = [none, *extra]
    if cut and (segments.unfinished_reasoning or not segments.actions):
        told = "The reply was cut off by the token limit."
        extra = [Problem(ProblemKind.TRUNCATED, told), *extra]
    if calls and final and verdict is not None and verdict.whole:
        told = "A call stood beside the final answer and was ignored."
        extra = [Problem(ProblemKind.IGNORED_CALL, told), *extra]
    found, snapshot, think = by_severity([*problems, *extra]), segments.snapshot, segments.think
    return Reply(text, snapshot, think, wants, verdict, confidence, final, found)


_OPEN_CALL: Final = re.compile(
    r"""\s*(?:```\w*\s*)?\{\s*(?:["']name["']\s*:\s*["']select_frames["']\s*,\s*"""
    r"""["']arguments["']\s*:\s*(\{)\s*)?["'](?:frame_indices|target_frames)["']\s*:\s*"""
    r"\[\s*\d+(?:\s*,\s*\d+)*(?=\s*[,\]])"
)
"""A call up to its last frame number that cannot grow: a comma or a bracket stands behind it."""


def read_request(text: str, rules: CallRules) -> tuple[int, ...]:
    """Return the frames that an unfinished reply asks for so far.

    More text only adds frames, unless the judge breaks off or spoils its call. A call inside the
    reasoning may be a quotation and is not read.
    """
    visible, narrow, _ = own_part(text)
    actions = ReplySplitter(visible, narrow, cut=True).split().actions
    calls = [action for action in actions if action.kind == "call"]
    before = narrow[: calls[0].tag] if calls else ""
    if before.strip() and not any(not tag.acts and not tag.opens for tag in find_tags(before)):
        return ()
    bodies = [(call.body, call.cut_off) for call in calls]
    if calls and calls[-1].cut_off and (found := _OPEN_CALL.match(calls[-1].body)):
        bodies[-1] = found[0] + ("]}}" if found[1] else "]}"), False
    wants, _ = read_calls(bodies, rules)
    return wants.indices if wants else ()


def _read_answers(actions: Sequence[Action]) -> list[tuple[Action, Labels]]:
    """Return the last 200 answers with their labels, the last one first.

    A judge at 2,048 tokens cannot write more.
    """
    answers = [action for action in actions if action.kind != "call"][-200:]
    return [(action, read_labels(action.body)) for action in reversed(answers)]


def _best_answer(read: Sequence[tuple[Action, Labels]]) -> tuple[Action, Labels]:
    """Return the answer that counts.

    A complete answer comes before an incomplete one, then any label before none, then a final
    answer before a recommended one, then the last answer.
    """

    def rank(pair: tuple[Action, Labels]) -> tuple[bool, bool, bool]:
        action, labels = pair
        empty = any(problem.kind is ProblemKind.EMPTY_ANSWER for problem in labels.problems)
        return labels.verdict.whole, not empty, action.kind == "final"

    return max(read, key=rank)


def _with_cut(action: Action, labels: Labels) -> list[Problem]:
    """Return an answer's problems; a cut that cost labels comes first."""
    missing = any(problem.kind is ProblemKind.MISSING_DIMS for problem in labels.problems)
    lost = Problem(ProblemKind.TRUNCATED, "The reply was cut off inside its answer.")
    return [*([lost] if action.cut_off and missing else []), *labels.problems]


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
        r"(?<!motion )(?<!motion-)\bquality(?! of (?:the |its )?(?:motion|movement))"
        r"|\bart[ei]fact|\bblur|\bsharp|\bnois[ey]|\bclear|\bdistort|\bcrisp",
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


def find_sentence(dimension: Dimension, texts: Iterable[str]) -> str:
    """Return the last sentence about the dimension, or "".

    The first text with such a sentence counts, and of long ones the end. A sentence with the
    dimension's abbreviation ("VQ: ...") comes first, then one with its name, then one with a word
    about it.
    """
    for text in texts:
        found: list[str] = [
            sentence.strip() for sentence in reversed(_SENTENCE.findall(text[-20_000:]))
        ]
        for words in _NAMES[dimension]:
            for sentence in found:
                if re.search(words, sentence, re.IGNORECASE):
                    return sentence[:400]
    return ""


def frame_numbers(sentence: str, shown: Collection[str]) -> list[int]:
    """Return the frames among those `shown` that a sentence names.

    Examples: "frames 10, 60 and 90", "#16", "between 14 and 18".
    """
    numbers = {match.start(): match[0] for match in _BARE.finditer(sentence)}
    for match in _FRAMES.finditer(sentence):
        for digits in re.finditer(r"\d+", match[1]):
            numbers[match.start(1) + digits.start()] = digits[0]
    named = dict.fromkeys(str(int(digits)) for _, digits in sorted(numbers.items()))
    return [int(number) for number in named if number in shown]
