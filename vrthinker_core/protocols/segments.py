"""The parts of a reply: its reasoning, answers and calls, and an answer's labels."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, takewhile
from typing import Any, Final, Literal, NamedTuple

from vrthinker_core.protocols.tool_calls import JsonRepair, parse_strict, value_end, without_strings
from vrthinker_core.types import Dimension, Preference, Problem, ProblemKind, Verdict

INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c"
    "\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Control, zero-width and direction characters, and variation selectors. Between two letters they
would hide a tag or a label."""

_NARROW: Final = (
    {0xFF01 + k: 0x21 + k for k in range(94)}
    | dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
    | {0x2028: "\n", 0x2029: "\n"}
)


def strip_invisible(text: str) -> str:
    """Return `text` without its invisible characters."""
    return INVISIBLE.sub("", text)


def to_narrow(text: str) -> str:
    """Replace full-width forms and spaces by ASCII, character for character."""
    return text if text.isascii() else text.translate(_NARROW)


def original_offsets(text: str, places: Sequence[int]) -> list[int]:
    """Map ascending offsets in `strip_invisible(text)` to offsets in `text`."""
    found: list[int] = []
    removed = INVISIBLE.finditer(text)
    following, shift = next(removed, None), 0
    for place in places:
        while following is not None and following.start() <= place + shift:
            following, shift = next(removed, None), shift + 1
        found.append(place + shift)
    return found


_NAME: Final = (
    r"""(?<![A-Za-z\u00c0-\u024f0-9_])_{0,3}(TA|MQ|VQ|OA|CF)"""
    r"""[\s"'*_`)\]]*(?:\([^()\n=:]{1,40}\)[\s"'*_`]*)?[=:]+"""
)
"""A name that is no part of a Latin word. A character of a script without spaces may stand right
before it."""
_LABEL: Final = re.compile(_NAME + r"""[\s"'*_`]*""", re.IGNORECASE)
_MARKS: Final = r"""["'*_`]{0,8}"""
_NO_VALUE: Final = re.compile(rf"[,;}}]|[{{<](?!\s{{0,8}}{_MARKS}\d)|\Z|{_NAME}", re.IGNORECASE)
"""The text after an empty place. A template that was copied, as `{0|1|2}` or `<1>`, is a value, and
a wrong one."""
_NEXT_ENTRY: Final = rf"""\d{{1,2}}[ \t]?[.):-]?[^\d,;\n]{{0,60}}?{_NAME}"""
"""The number of the next entry of a list, not a value: `2. MQ=`, `2) motion quality (MQ):`."""
_NUMBERED_ENTRY: Final = rf"""[2-9][ \t]?[.):-][^\d,;\n]{{0,60}}?{_NAME}"""
"""Like `_NEXT_ENTRY`, but only a mark tells the number from a value. Needed behind "and": `0 and 1
MQ=` holds two values."""
_ALONE: Final = rf"""\.?[ \t]{{0,8}}(?:\Z|[,;\n)]|(?:or|to|and)\b|{_NAME})"""
_TIE: Final = r"(?:a[ \t]{1,8})?(?:tie|draw)\b"
_SIDE: Final = r"(?:(?:the[ \t]{1,8})?videos?[ \t]{0,8})?"
_SECOND: Final = "|".join(
    (
        r"_{0,8}[^\W_]|%|[.:?]\d|[/|\\⁄∕]{2}\d|[ \t]{0,8}\.{2,8}[ \t]{0,8}\d",
        rf",(?!{_NEXT_ENTRY})\d",
        r"[ \t]{0,8}(?:[/|\\⁄∕~=&+→⇒…−‐‑‒–—―-]|[-=]>)[ \t]{0,8}\d",
        rf"{_MARKS}[ \t]{{0,8}}[/|\\⁄∕][ \t]{{0,8}}{_MARKS}(?!{_NEXT_ENTRY})\d",
        (
            rf"{_MARKS}[ \t]{{0,8}}[,;/]?[ \t]{{0,8}}"
            rf"\b(?:and/or|or|to|vs\.?|versus)[ \t]{{1,8}}{_MARKS}\d"
        ),
        rf"(?<=[12]){_MARKS}[ \t]{{0,8}}(?:/[ \t]{{0,8}}|\bor[ \t]{{1,8}}){_MARKS}{_TIE}",
        r"[ \t]{1,8}(?:或者?|还是|到|至)[ \t]{0,8}\d",
        rf"[ \t]{{0,8}}(?:/[ \t]{{0,8}}|\b)and[ \t]{{1,8}}(?!{_NUMBERED_ENTRY})\d",
        rf"[ \t]{{0,8}}[,;][ \t]{{0,8}}and[ \t]{{1,8}}(?!{_NUMBERED_ENTRY})[0-2]{_ALONE}",
        rf"[ \t]{{0,8}}[、､][ \t]{{0,8}}(?!{_NUMBERED_ENTRY})\d",
        rf"{_MARKS}[ \t]{{0,8}}[<>≤≥≪≫≺≻≈≠][ \t]{{0,8}}{_MARKS}{_SIDE}\d",
        rf"{_MARKS}[ \t]{{1,8}}(?:beats|over|against|(?:[a-z]{{2,12}}[ \t]{{1,8}}){{1,3}}than)"
        rf"[ \t]{{1,8}}{_MARKS}{_SIDE}\d",
        rf"{_MARKS}[ \t]{{0,8}}(?:(?:points?|stars?)\b|[★⭐])",
        rf"{_MARKS}[ \t]{{0,8}}[(\[]?(?:out[ \t]{{1,8}})?\bof[ \t]{{1,8}}{_MARKS}\d",
        rf"[ \t]{{1,8}}(?!{_NEXT_ENTRY})\d",
        rf"[ \t]{{0,8}}[,;][ \t]{{0,8}}(?!{_NEXT_ENTRY})[0-2]{_ALONE}",
    )
)
"""Text that must not follow a digit. The rest of 12, 1.5 or 1st, or a second value, as in 1/2, 1 ->
2, or "1, 2" and "0, 1 or 2", the other side of a comparison, as in 1 < 2, or what makes it a score,
as in "2 out of 5"."""
_DIGIT: Final = re.compile(rf"([0-5])(?!{_SECOND})", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\{1,4}(?:[nr\"]|t(?![aA]))")
r"""`\n` as two characters, in an answer that was written as a string. `\ta` is more likely a name
behind a backslash."""
_MEANING: Final = str.maketrans("nrt", "\n\n\t")


class Labels(NamedTuple):
    """The labels of one answer, with confidence, problems and places."""

    verdict: Verdict
    confidence: int | None
    problems: tuple[Problem, ...]
    # Offset in the body of the digit that first gave each readable label
    places: dict[Dimension, int]


def read_labels(body: str) -> Labels:
    """Return the labels in `body` (after `to_narrow`), worst problem first."""
    mentions = list(_mentions(body))
    values: dict[str, list[int | None]] = {name: [] for name in (*Dimension, "CF")}
    for name, value, _ in mentions:
        values[name].append(value)
    # The value that all mentions give, else None
    single = {name: each[0] if len(set(each)) == 1 else None for name, each in values.items()}
    labels = {name: single[name] for name in Dimension}
    verdict = Verdict(
        **{name: None if label is None else Preference(label) for name, label in labels.items()}
    )
    conflict = [name for name in Dimension if len(set(values[name]) - {None}) > 1]
    bad = [name for name in Dimension if None in values[name]]
    missing = [name for name in Dimension if not values[name]]
    empty = len(missing) == len(Dimension)
    unclear = values["CF"] and single["CF"] is None
    confidence = "The confidence is not one number from 1 to 5 and was left out."
    found = (
        (
            conflict,
            ProblemKind.CONFLICT,
            f"The answer gives {_listed(conflict)} two different labels.",
        ),
        (bad, ProblemKind.BAD_VALUE, f"The label of {_listed(bad)} is not 0, 1 or 2."),
        (missing, ProblemKind.MISSING_DIMS, f"The answer has no label for {_listed(missing)}."),
        (empty, ProblemKind.EMPTY_ANSWER, "The answer holds no label at all."),
        (unclear, ProblemKind.BAD_CONFIDENCE, confidence),
    )
    problems = tuple(Problem(kind, detail) for holds, kind, detail in found if holds)
    said = [(Dimension(name), place) for name, _, place in reversed(mentions) if name != "CF"]
    places = {name: place for name, place in said if labels[name] is not None}
    return Labels(verdict, single["CF"], problems, places)


def mentioned_digits(text: str) -> frozenset[int]:
    """Return offsets of all digits that say a label, also outside answers."""
    return frozenset(original_offsets(text, list(_label_places(to_narrow(strip_invisible(text))))))


def _label_places(body: str) -> Iterator[int]:
    """Yield the offsets of the digits in `body` (after `to_narrow`) that say a label."""
    found = _mentions(body)
    return (place for name, value, place in found if name != "CF" and value is not None)


def _mentions(body: str) -> Iterator[tuple[str, int | None, int]]:
    """Yield (name, value, its offset) of every mention of a name with a value.

    The name is a dimension's or "CF". The value is None for anything but an allowed digit.
    """
    body = _ESCAPED.sub(lambda match: match[0][-1].translate(_MEANING).rjust(len(match[0])), body)
    for mention in islice(_LABEL.finditer(body), 1000):
        name, place = mention[1].upper(), mention.end()
        digit = _DIGIT.match(body, place)
        if digit is None and _NO_VALUE.match(body, place):
            continue
        value = int(digit[1]) if digit else None
        allowed = range(1, 6) if name == "CF" else range(3)
        yield name, value if value in allowed else None, place


def _listed(names: list[Dimension]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))


TagKind = Literal["think", "snapshot", "recommend", "final", "call", "edge"]

_GAP = r"[\s_-]{0,8}"
_OPENING = r"<\s{0,8}([/\\]?)\s{0,8}(?=\w)"
# Attributes. Never guillemets: `sanitize_prompt` writes them for the brackets of a tag.
_REST = r"(?:[\s/][^<>‹›]{0,400})?>"
_REASONING = (
    r"(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection)(?::\w{1,20})?"
)
_CHANNEL = r"channel\|?>\s{0,8}(?:%s)\b(?:[^<\n]{0,80}<\|message\|>)?"
_BEGINS = (
    rf"<\|(?:{_CHANNEL % 'analysis|thought'}"
    r"|(?:start_thinking|begin_of_thought|inner_prefix|think)\|>|open\|>\s?think\s?<\|sep\|>)"
    r"|\[think\]|◁think▷|(?-i:Here(?:'s| is) my thought process:)"
)
_ENDS = (
    rf"<\|(?:{_CHANNEL % 'final|commentary'}"
    r"|(?:end_thinking|end_of_thought|inner_suffix|/think)\|>|close\|>\s?think\s?<\|sep\|>)"
    r"|<channel\|>|\[/think\]|◁/think▷|(?-i:Here(?:'s| is) my response:|assistantfinal)"
)
"""Control tokens and words around the reasoning in other chat templates."""

TAG: Final = re.compile(
    f"{_OPENING}(?:(?P<think>{_REASONING})|(?P<snapshot>snap{_GAP}shot|synthesis)"
    f"|(?P<recommend>recommend(?:ed)?{_GAP}answer)|(?P<final>(?:final{_GAP})?answer)"
    f"|(?P<call>tool{_GAP}call)){_REST}|(?P<begins>{_BEGINS})|(?P<ends>{_ENDS})",
    re.IGNORECASE,
)

ENVIRONMENT: Final = re.compile(
    r"<\|(?:im_start|im_end|endoftext|vision_start|vision_end|vision_pad|image_pad|video_pad)\|>"
    r"|<\|start\|>(?!assistant)|<\|turn>|<turn\|>|<\|tool_response>"
    r"|</?(?:start|end)_of_turn>|<\|(?:start|end)_of_(?:turn_token|role|text|sentence|message)\|>"
    r"|<\|(?:eot_id|eom_id|eot|user|system|observation|(?:user|system|chatbot)_token)\|>"
    r"|<\|end\|>(?!<\|start\|>assistant)|<\|(?:start_header_id|im_(?:user|system|middle))\|>"
    r"|</s>|\[/?INST\]|\[TOOL_RESULTS\]"
    r"|<[|｜](?:User|end▁of▁sentence|tool▁outputs?▁begin)[|｜]>|<seed:[be]os>|\]~b\]|\[e~\["
    rf"|<\s{{0,8}}tool{_GAP}response\b"
    rf"|(?P<call><\s{{0,8}}(?:[/\\]\s{{0,8}}tool{_GAP}call{_REST}"
    rf"|tool{_GAP}call{_REST}[^<]*?[}}\]`])\s*+)"
    r"(?=After selecting frames:)",
    re.IGNORECASE,
)
"""The begin of an invented environment: a control token, a tool response, or, right behind a call
that may be left open, the first words of the message after a call."""

PROTOCOL: Final = re.compile(
    rf"{_OPENING}(?:{_REASONING}|snap{_GAP}shot|synthesis"
    rf"|(?:(?:final|recommend(?:ed)?){_GAP})?answer"
    rf"|tool{_GAP}(?:call|response)|tools){_REST}|<\w{{1,20}}\|>",
    re.IGNORECASE,
)
"""Every tag of either protocol, also of the environment, and control tokens such as `<turn|>`."""


def own_part(text: str) -> tuple[str, str, int | None]:
    """Return (visible text, narrow text, end) of the judge's own part.

    `end` is the offset at which the judge began to invent its environment, else None. A quotation
    counts, too: a verdict on invented frames is worse than a retry.
    """
    visible = strip_invisible(text)
    narrow = to_narrow(visible)
    found = ENVIRONMENT.search(narrow)
    end = found and (found.end() if found["call"] else found.start())
    return visible[:end], narrow[:end], end


class Tag(NamedTuple):
    """A tag and its offsets."""

    kind: TagKind
    opens: bool
    start: int
    end: int
    adjacent: bool  # Only white space stands before it, up to the tag before

    @property
    def acts(self) -> bool:
        """Whether the tag is none of reasoning."""
        return self.kind not in ("think", "snapshot")

    def closes(self, *kinds: TagKind) -> bool:
        """Return whether it is the closing tag of one of these kinds."""
        return not self.opens and self.kind in kinds

    def opens_inside(self, before: "Tag") -> bool:
        """Return whether it opens directly inside `before`, the tag before."""
        return before.opens and self.opens and self.adjacent


_START: Final = Tag("edge", False, 0, 0, True)
_ANSWERS: Final[tuple[TagKind, ...]] = ("final", "recommend")


def find_tags(text: str) -> Iterator[Tag]:
    """Yield the tags of `text` in order."""
    before = 0
    for match in TAG.finditer(text):
        found: Any = match.lastgroup
        kind: TagKind = "think" if found in ("begins", "ends") else found
        opens, (start, end) = not match[1] and found != "ends", match.span()
        yield Tag(kind, opens, start, end, not text[before:start].strip())
        before = end


def lost_its_opening(text: str) -> bool:
    """Return whether a call lost its opening tag: somebody removed a part.

    Behind the reasoning a call is closed. No call is opened anywhere, and no final answer is opened
    behind the reasoning, except directly inside a recommended one.
    """
    tags = list(find_tags(to_narrow(strip_invisible(text))))
    reasoned = max((tag.end for tag in tags if not tag.acts and not tag.opens), default=0)
    for before, tag in pairwise((_START, *tags)):
        wrapped = before.kind == "recommend" and tag.opens_inside(before)
        is_final = tag.kind == "final" and tag.start >= reasoned and not wrapped
        if tag.opens and (tag.kind == "call" or is_final):
            return False
    return any(tag.closes("call") and tag.start >= reasoned for tag in tags)


class Action(NamedTuple):
    """An answer or a call outside the reasoning."""

    kind: TagKind
    body: str
    cut_off: bool  # The token limit ended the reply before the closing tag
    start: int  # Offset of the body, in the reply that was split
    tag: int  # Offset of the opening tag; of the first one if it is doubled


class ReplySegments(NamedTuple):
    """The parts of a reply."""

    snapshot: str
    think: str
    actions: tuple[Action, ...]
    unfinished_reasoning: bool  # The reply ends inside its reasoning


def before_action(text: str) -> str:
    """Return a reply up to its first final answer or call."""
    visible = strip_invisible(text)
    actions = ReplySplitter(visible, to_narrow(visible), cut=False).split().actions
    start = next((action.tag for action in actions if action.kind != "recommend"), None)
    return text if start is None else text[: original_offsets(text, [start])[0]]


class ReplySplitter:
    """A splitter of replies over the table of their tags, in linear time."""

    def __init__(self, visible: str, narrow: str, *, cut: bool) -> None:
        """Set up the splitter.

        Reasoning comes from `visible`, all else from `narrow` (`to_narrow(visible)`). `cut` means
        that the token limit ended the reply.
        """
        self._visible, self._narrow, self._cut = visible, narrow, cut
        self._repair = JsonRepair()
        # Calls without a closing tag whose JSON may still be read. A JSON error names its line, so
        # each such call reads all text before it again.
        self._unclosed = 100
        tags = [_START, *find_tags(narrow)]
        self._end = len(tags)  # The tag at the end of the text
        adjacent = not narrow[tags[-1].end :].strip()
        self._tags = tags = [*tags, Tag("edge", False, len(narrow), len(narrow), adjacent)]
        self._closings = self._pair_reasoning()
        self._last_close = {tag.kind: i for i, tag in enumerate(tags) if not tag.opens}
        acting = (i for i, tag in enumerate(tags) if tag.opens and tag.acts)
        self._last_action = max(acting, default=0)
        # The first tag behind the closed reasoning that begins the reply
        self._leading = 1
        while self._leading in self._closings and tags[self._leading].adjacent:
            self._leading = self._closings[self._leading] + 1
        self._unopened = self._unopened_reasoning()

    def split(self) -> ReplySegments:
        """Return the parts of the reply."""
        parts: dict[TagKind, list[str]] = {"think": [], "snapshot": []}
        actions: list[Action] = []
        i, unfinished = 1, False
        while i < self._end:
            tag = self._tags[i]
            if i == self._leading <= self._unopened:
                parts["think"].append(self._text(self._visible, i - 1, self._unopened).strip())
                i = self._unopened + 1
            elif not tag.opens:
                i += 1
            elif tag.acts:
                i, action = self._action(i)
                actions.append(action)
            else:
                end = self._reasoning_end(i)
                parts[tag.kind].append(self._text(self._visible, i, end).strip())
                unfinished = end == self._end
                i = end if self._tags[end].opens else end + 1
        snapshot, think = ("\n".join(filter(None, parts[kind])) for kind in ("snapshot", "think"))
        return ReplySegments(snapshot, think, tuple(actions), unfinished)

    def _text(self, source: str, i: int, end: int) -> str:
        """Return the text between tag `i` and tag `end`."""
        return source[self._tags[i].end : self._tags[end].start]

    def _doubled(self, i: int) -> bool:
        """Return whether tag `i` repeats the opening tag right before it."""
        before, tag = self._tags[i - 1], self._tags[i]
        return before.kind == tag.kind and tag.opens_inside(before)

    def _pair_reasoning(self) -> dict[int, int]:
        """Map opening to closing tags of reasoning, from the inside out."""
        found: dict[int, int] = {}
        open_tags: dict[str, list[int]] = {"think": [], "snapshot": []}
        for i, tag in enumerate(self._tags):
            if tag.acts:
                continue
            if not tag.opens and open_tags[tag.kind]:
                found[open_tags[tag.kind].pop()] = i
            elif tag.opens and not self._doubled(i):
                open_tags[tag.kind].append(i)
        return found

    def _unopened_reasoning(self) -> int:
        """Return the tag that closes reasoning without an opening tag, or 0.

        The chat template may have written the opening tag. Everything before the closing tag is
        reasoning, quoted answers and calls, too, except closed reasoning at the very beginning.

        Of several such tags, the last one before an action counts. If no action follows any of
        them, the last one counts: nothing follows the reasoning.

        Returns 0 (the tags are slips) if the reply begins with an action, or if the first tag
        stands right behind an action and the token limit has not cut off the rest.
        """
        unopened = self._unopened_closings()
        if acting := [i for i in unopened if i < self._last_action]:
            return acting[-1]
        if not unopened or self._tags[self._leading].adjacent:
            return 0
        before, first = self._tags[unopened[0] - 1], self._tags[unopened[0]]
        slip = before.acts and (before.opens or first.adjacent) and not self._cut
        return 0 if slip else unopened[-1]

    def _unopened_closings(self) -> list[int]:
        """Return the tags that close thinking that was not opened.

        Tags inside a segment, a call or a closed answer do not count. A reply that begins with
        words may be reasoning that quotes an opening tag: then the first thinking between two
        actions counts, too.
        """
        found: list[int] = []
        i, tags, acted = 1, self._tags, False
        quoting = not tags[1].adjacent
        if not quoting and 2 * len(self._closings) == sum(not tag.acts for tag in tags):
            return found  # All tags of reasoning are paired
        while i < self._end:
            tag, closing = tags[i], self._closings.get(i)
            if closing is not None:
                quoted = quoting and acted and not found and tag.kind == "think"
                found += [closing] if quoted and closing < self._last_action else []
                i = closing
            elif tag.opens and tag.kind == "call":
                acted, i = True, self._call(i)[0] - 1
            elif tag.opens and tag.acts:
                acted, end = True, next(j for j in range(i + 1, len(tags)) if tags[j].acts)
                i = end if tags[end].closes(*_ANSWERS) else i
            elif tag.closes("think") and not (tag.adjacent and tags[i - 1].closes("think")):
                found.append(i)
            i += 1
        return found

    def _reasoning_end(self, i: int) -> int:
        """Return the tag that ends the reasoning opened by tag `i`.

        Reasoning without a closing tag of its own ends at the last closing tag of its kind, if an
        action follows or the token limit cut the reply: everything between may be quotation. Else
        the reasoning ends at the next opening tag. A cut reply may have been about to close the
        reasoning, so no opening tag ends it, except that a snapshot ends when thinking begins.
        """
        if i in self._closings:
            return self._closings[i]
        tags, kind = self._tags, self._tags[i].kind
        last = self._last_close.get(kind, 0)
        if last > i and (self._cut or self._last_action > last):
            return last
        opening = (j for j in range(i + 1, self._end) if tags[j].opens)
        if self._cut:
            opening = (j for j in opening if (kind, tags[j].kind) == ("snapshot", "think"))
        return next(opening, self._end)

    def _action(self, i: int) -> tuple[int, Action]:
        """Return (tag to go on from, action that tag `i` opens).

        Of equal opening tags in a row the last one counts. A recommended answer is never final,
        whatever answer tag opens directly inside it.
        """
        tags, first = self._tags, self._tags[i]
        while self._doubled(i + 1):
            i += 1
        if first.kind == "call":
            following, body = self._call(i)
            closed = tags[following].closes("call")
        else:
            while first.kind == "recommend" and tags[i + 1].kind == "final":
                if not tags[i + 1].opens_inside(tags[i]):
                    break
                i += 1
            following, (closed, body) = i + 1, self._answer(i)
        cut_off = self._cut and not closed
        return following, Action(first.kind, body, cut_off, tags[i].end, first.start)

    def _answer(self, i: int) -> tuple[bool, str]:
        """Return (whether it is closed, body) of the answer opened by tag `i`.

        The next tag ends an answer, but tags closed inside a closed answer are skipped. An unclosed
        answer ends at a call, and at reasoning behind its labels: another answer may follow.
        """
        end, body = self._around_inner(i, calls=True)
        if not self._tags[end].closes(*_ANSWERS):
            end, body = i + 1, self._text(self._narrow, i, i + 1)
            if not any(_label_places(body)):
                end, body = self._around_inner(i, calls=False)
        return self._tags[end].closes(*_ANSWERS), body

    def _around_inner(self, i: int, *, calls: bool) -> tuple[int, str]:
        """Return (first tag, text before it) behind tag `i` and the parts closed inside.

        These are closed reasoning and, with `calls`, closed calls, blanked to keep offsets.
        """
        tags, end, parts = self._tags, i + 1, [self._text(self._narrow, i, i + 1)]
        while calls or not tags[end].acts:
            closing = self._closings.get(end)
            if tags[end].opens and tags[end].kind == "call" and tags[end + 1].closes("call"):
                closing = end + 1
            if closing is None:
                break
            parts.append(" " * (tags[closing].end - tags[end].start))
            parts.append(self._text(self._narrow, closing, closing + 1))
            end = closing + 1
        return end, "".join(parts)

    def _call(self, i: int) -> tuple[int, str]:
        """Return (closing tag, body) of the call opened by tag `i`.

        A tag in a string of the call's JSON does not end it.
        """
        tags, narrow = self._tags, self._narrow
        # The first two closing tags before the next call opens
        calls = (j for j in range(i + 1, self._end) if tags[j].kind == "call")
        closings = list(islice(takewhile(lambda j: not tags[j].opens, calls), 2))
        for end in closings:
            body = self._text(narrow, i, end)
            if closings == [i + 1] or self._is_call(body):
                return end, body
        end, body = self._around_inner(i, calls=False)
        if tags[end].closes("call"):
            return end, body
        # Up to the first tag behind the JSON value, without a whole value up to the next tag
        end = i + 1
        if self._unclosed and '"' in self._text(narrow, i, end):
            self._unclosed -= 1
            start = value_end(narrow, tags[i].end)
            while tags[end].start < start:
                end += 1
        return end, self._text(narrow, i, end)

    def _is_call(self, body: str) -> bool:
        """Return whether `body` is a call's JSON, perhaps with small slips.

        Any tags in the body must stand in its strings.
        """
        if parse_strict(body):
            return True
        whole = body.strip().startswith("{") and body.strip().endswith("}")
        repaired = self._repair.parse(body)
        return whole and bool(repaired) and not any(find_tags(without_strings(body)))
