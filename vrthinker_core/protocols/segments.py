"""The parts of a reply: its reasoning, answers and calls."""

import re
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from typing import Any, Final, Literal, NamedTuple

from vrthinker_core.protocols.labels import (
    original_offsets,
    says_a_label,
    strip_invisible,
    to_narrow,
)
from vrthinker_core.protocols.lenient_json import (
    MAX_REPAIR_CHARS,
    parse_repaired,
    parse_strict,
    value_end,
    without_strings,
)

TagKind = Literal["think", "snapshot", "recommend", "final", "call"]

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


def invention_start(text: str) -> int | None:
    """Return the offset at which the model invents its environment, or None.

    A quotation counts, too: a verdict on invented frames is worse than a retry.
    """
    found = ENVIRONMENT.search(text)
    return found and (found.end() if found["call"] else found.start())


class Tag(NamedTuple):
    """A tag and its offsets."""

    kind: TagKind
    opens: bool
    start: int
    end: int

    @property
    def acts(self) -> bool:
        """Whether the tag belongs to an answer or a call."""
        return self.kind not in ("think", "snapshot")


def lost_its_opening(text: str) -> bool:
    """Return whether a call lost its opening tag: somebody removed a part.

    Behind the reasoning a call is closed. No call is opened anywhere, and no final answer is opened
    behind the reasoning.
    """
    text = to_narrow(strip_invisible(text))
    tags = list(find_tags(text))
    reasoned = max((tag.end for tag in tags if not tag.acts and not tag.opens), default=0)
    # An answer directly inside a recommended one is not final
    wrapped = {
        tag
        for before, tag in pairwise(tags)
        if before.kind == "recommend" and opens_directly_inside(text, before, tag)
    }
    for tag in tags:
        is_final = tag.kind == "final" and tag.start >= reasoned and tag not in wrapped
        if tag.opens and (tag.kind == "call" or is_final):
            return False
    return any(tag.kind == "call" and tag.start >= reasoned for tag in tags)


def opens_directly_inside(text: str, outer: Tag, tag: Tag) -> bool:
    """Return whether `tag` opens right behind `outer`, the opening tag before."""
    return outer.opens and tag.opens and not text[outer.end : tag.start].strip()


def find_tags(text: str) -> Iterator[Tag]:
    """Yield the tags of `text` in order."""
    for match in TAG.finditer(text):
        found: Any = match.lastgroup
        kind: TagKind = "think" if found in ("begins", "ends") else found
        yield Tag(kind, not match[1] and found != "ends", match.start(), match.end())


_ANSWERS: Final[tuple[TagKind, ...]] = ("final", "recommend")


class Action(NamedTuple):
    """An answer or a call outside the reasoning."""

    kind: Literal["final", "recommend", "call"]
    body: str
    closed: bool  # Whether the closing tag is there
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
    """A splitter of replies over their tags, in linear time."""

    def __init__(self, visible: str, narrow: str, *, cut: bool) -> None:
        """Set up the splitter.

        Reasoning comes from `visible`, all else from `narrow` (`to_narrow(visible)`). `cut` means
        that the token limit ended the reply.
        """
        self._visible, self._narrow, self._cut = visible, narrow, cut
        self._repairable = MAX_REPAIR_CHARS  # Characters that may still be repaired
        # Calls without a closing tag whose JSON may still be read. A JSON error names its line, so
        # each such call reads all text before it again.
        self._unclosed = 100
        self._tags = tags = list(find_tags(narrow))
        self._closings = self._pair_reasoning()
        self._last_close = {tag.kind: i for i, tag in enumerate(tags) if not tag.opens}
        acting = (i for i, tag in enumerate(tags) if tag.opens and tag.acts)
        self._last_action = max(acting, default=-1)
        # The first tag behind the closed reasoning that begins the reply
        self._leading = 0
        while self._leading in self._closings and self._is_adjacent(self._leading):
            self._leading = self._closings[self._leading] + 1
        self._unopened = self._unopened_reasoning()

    def split(self) -> ReplySegments:
        """Return the parts of the reply."""
        segments: dict[str, list[str]] = {"think": [], "snapshot": []}
        actions: list[Action] = []
        i, tags, unfinished = 0, self._tags, False
        while i < len(tags):
            tag = tags[i]
            if i == self._leading <= self._unopened:
                start, end = self._gap_start(i), tags[self._unopened].start
                segments["think"].append(self._visible[start:end].strip())
                i = self._unopened + 1
            elif not tag.opens:
                i += 1
            elif tag.kind == "think" or tag.kind == "snapshot":
                end = self._segment_end(i)
                segments[tag.kind].append(self._text(self._visible, i, end).strip())
                unfinished = end == len(tags)
                i = end + 1 if not unfinished and not tags[end].opens else end
            else:
                i, action = self._action(i, tag.kind)
                actions += [action] if action else []
        joined = {kind: "\n".join(filter(None, texts)) for kind, texts in segments.items()}
        return ReplySegments(joined["snapshot"], joined["think"], tuple(actions), unfinished)

    def _text(self, source: str, i: int, end: int) -> str:
        """Return the text between tag `i` and tag `end`."""
        start = self._tags[i].end
        return source[start : self._tags[end].start] if end < len(self._tags) else source[start:]

    def _gap_start(self, i: int) -> int:
        """Return the end of the tag before tag `i`."""
        return self._tags[i - 1].end if i else 0

    def _is_adjacent(self, i: int) -> bool:
        """Return whether only white space stands between tag `i` and its predecessor."""
        return not self._narrow[self._gap_start(i) : self._tags[i].start].strip()

    def _doubled(self, i: int) -> bool:
        """Return whether tag `i` repeats the opening tag right before it."""
        if not 0 < i < len(self._tags):
            return False
        before, tag = self._tags[i - 1], self._tags[i]
        return before.kind == tag.kind and opens_directly_inside(self._narrow, before, tag)

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
        """Return the tag that closes reasoning without an opening tag, or -1.

        The chat template may have written the opening tag. Everything before the closing tag is
        reasoning, quoted answers and calls, too, except closed reasoning at the very beginning.

        Of several such tags, the last one before an action counts. If no action follows any of
        them, the last one counts: nothing follows the reasoning.

        Returns -1 (the tags are slips) if the reply begins with an action, or if the first tag
        stands right behind an action and the token limit has not cut off the rest.
        """
        unopened = self._unopened_closings()
        if acting := [i for i in unopened if i < self._last_action]:
            return acting[-1]
        if not unopened or self._is_adjacent(self._leading):
            return -1
        before = self._tags[unopened[0] - 1] if unopened[0] else None
        behind = before and before.acts and (before.opens or self._is_adjacent(unopened[0]))
        return -1 if behind and not self._cut else unopened[-1]

    def _unopened_closings(self) -> list[int]:
        """Return the tags that close thinking that was not opened.

        Tags inside a segment, a call or a closed answer do not count. A reply that begins with
        words may be reasoning that quotes an opening tag: then the first thinking between two
        actions counts, too.
        """
        found: list[int] = []
        i, tags, acted = 0, self._tags, False
        quoting = bool(tags) and not self._is_adjacent(0)
        if not quoting and 2 * len(self._closings) == sum(not tag.acts for tag in tags):
            return found  # All tags of reasoning are paired
        while i < len(tags):
            tag, closing = tags[i], self._closings.get(i)
            if closing is not None:
                quoted = quoting and acted and not found and tag.kind == "think"
                found += [closing] if quoted and closing < self._last_action else []
                i = closing + 1
            elif tag.opens and tag.acts:
                acted = True
                if tag.kind == "call":
                    i = self._call(i)[0]
                else:
                    acting = (j for j in range(i + 1, len(tags)) if tags[j].acts)
                    end = next(acting, len(tags))
                    i = end if self._closes(end, _ANSWERS) else i + 1
            else:
                again = self._closes(i - 1, ("think",)) and self._is_adjacent(i)
                found += [i] if tag.kind == "think" and not tag.opens and not again else []
                i += 1
        return found

    def _segment_end(self, i: int) -> int:
        """Return the tag that ends the reasoning opened by tag `i`.

        Reasoning without a closing tag of its own ends at the last closing tag of its kind, if an
        action follows or the token limit cut the reply: everything between may be quotation. Else
        the reasoning ends at the next opening tag. A cut reply may have been about to close the
        reasoning, so no opening tag ends it, except that a snapshot ends when thinking begins.
        Returns the number of tags if no tag ends the reasoning.
        """
        if i in self._closings:
            return self._closings[i]
        kind = self._tags[i].kind
        last = self._last_close.get(kind, -1)
        if last > i and (self._cut or self._last_action > last):
            return last
        for j in range(i + 1, len(self._tags)):
            tag = self._tags[j]
            if tag.opens and (not self._cut or (kind == "snapshot" and tag.kind == "think")):
                return j
        return len(self._tags)

    def _action(
        self, i: int, kind: Literal["final", "recommend", "call"]
    ) -> tuple[int, Action | None]:
        """Return (tag to go on from, action that tag `i` opens).

        The first of two equal opening tags gives no action. A recommended answer is never final,
        whatever answer tag opens directly inside it. The next tag ends an answer, but tags closed
        inside a closed answer are skipped. An unclosed answer ends at a call, and at reasoning
        behind its labels: another answer may follow.
        """
        if self._doubled(i + 1):
            return i + 1, None
        tags, first = self._tags, i
        while self._doubled(first):
            first -= 1
        start = tags[first].start
        if kind == "call":
            end, body = self._call(i)
            return end, Action(kind, body, self._closes(end, ("call",)), tags[i].end, start)
        if kind == "recommend":
            while i + 1 < len(tags) and tags[i + 1].kind == "final":
                if not opens_directly_inside(self._narrow, tags[i], tags[i + 1]):
                    break
                i += 1
        end = self._behind_inner(i, calls=True)
        if not self._closes(end, _ANSWERS):
            labelled = says_a_label(self._text(self._narrow, i, i + 1))
            end = i + 1 if labelled else self._behind_inner(i, calls=False)
        body, closed = self._without_inner(i, end), self._closes(end, _ANSWERS)
        return i + 1, Action(kind, body, closed, tags[i].end, start)

    def _closes(self, i: int, kinds: tuple[TagKind, ...]) -> bool:
        return 0 <= i < len(self._tags) and not self._tags[i].opens and self._tags[i].kind in kinds

    def _behind_inner(self, i: int, *, calls: bool) -> int:
        """Return the tag behind closed reasoning, and with `calls` behind closed calls."""
        end = i + 1
        while (closing := self._inner_closing(end)) and (calls or not self._tags[end].acts):
            end = closing + 1
        return end

    def _inner_closing(self, i: int) -> int | None:
        """Return the closing tag of reasoning, or of a call without tags."""
        if i < len(self._tags) and self._tags[i].kind == "call" and self._tags[i].opens:
            return i + 1 if self._closes(i + 1, ("call",)) else None
        return self._closings.get(i)

    def _without_inner(self, i: int, end: int) -> str:
        """Return the text between two tags, inner parts blanked to keep offsets."""
        parts, j = [], i
        while j + 1 < end and (closing := self._inner_closing(j + 1)):
            parts.append(self._text(self._narrow, j, j + 1))
            parts.append(" " * (self._tags[closing].end - self._tags[j + 1].start))
            j = closing
        return "".join((*parts, self._text(self._narrow, j, end)))

    def _call(self, i: int) -> tuple[int, str]:
        """Return (closing tag, body) of the call opened by tag `i`.

        A tag in a string of the call's JSON does not end it.
        """
        tags, narrow = self._tags, self._narrow
        # The first two closing tags before the next call opens
        calls = (j for j in range(i + 1, len(tags)) if tags[j].kind == "call")
        closings = list(islice(takewhile(lambda j: not tags[j].opens, calls), 2))
        for end in closings:
            body = self._text(narrow, i, end)
            if closings == [i + 1] or self._is_call(body):
                return end, body
        if self._closes(end := self._behind_inner(i, calls=False), ("call",)):
            return end, self._without_inner(i, end)
        # Up to the first tag behind the JSON value, without a whole value up to the next tag
        end = i + 1
        if self._unclosed and '"' in self._text(narrow, i, end):
            self._unclosed -= 1
            start = value_end(narrow, tags[i].end)
            while end < len(tags) and tags[end].start < start:
                end += 1
        return end, self._text(narrow, i, end)

    def _is_call(self, body: str) -> bool:
        """Return whether `body` is a call's JSON, perhaps with small slips.

        Any tags in the body must stand in its strings.
        """
        if parse_strict(body):
            return True
        if len(body) > self._repairable:
            return False
        self._repairable -= len(body)
        whole = body.strip().startswith("{") and body.strip().endswith("}")
        return whole and not any(find_tags(without_strings(body))) and bool(parse_repaired(body))
