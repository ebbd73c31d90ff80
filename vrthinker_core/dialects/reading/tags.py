"""The tags of a reply, as models really write them.

Tags come in any case, with spaces, `_` or `-`, and with attributes. Every expression here is linear
on any text: repetitions are bounded, or stop at the next angle bracket.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from vrthinker_core.dialects.reading.normalize import strip_invisible, to_narrow

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
    rf"|<\s{{0,8}}tool{_GAP}response\b"
    rf"|(?P<call><\s{{0,8}}(?:[/\\]\s{{0,8}}tool{_GAP}call{_REST}"
    rf"|tool{_GAP}call{_REST}[^<]*?[}}\]`])\s*+)"
    r"(?=After selecting frames:)",
    re.IGNORECASE,
)
"""The place at which a model begins to invent its environment. A control token, a tool response,
or, right behind a call, the words that begin the message after a call. The call may have been left
open."""

PROTOCOL: Final = re.compile(
    rf"{_OPENING}(?:{_REASONING}|snap{_GAP}shot|synthesis"
    rf"|(?:(?:final|recommend(?:ed)?){_GAP})?answer"
    rf"|tool{_GAP}(?:call|response)|tools){_REST}|<\w{{1,20}}\|>",
    re.IGNORECASE,
)
"""Every tag of either protocol, and control tokens such as `<turn|>`. Tags that only the
environment writes are included."""


def invention_start(text: str) -> int | None:
    """Return the offset at which the model invents its environment, or None.

    A quotation in reasoning counts, too: a verdict that rests on invented frames is worse than a
    retry.
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
    reasoned, calls = _reasoning_end(tags), [tag for tag in tags if tag.kind == "call"]
    if any(tag.opens for tag in calls) or any(_opened_actions(text, tags)):
        return False
    return any(tag.start >= reasoned for tag in calls)


def _opened_actions(text: str, tags: Sequence[Tag]) -> Iterator[Tag]:
    """Yield tags that open a final answer or call behind the reasoning.

    An answer directly inside a recommended one is not final.
    """
    reasoned = _reasoning_end(tags)
    wrapped = {
        tag
        for before, tag in pairwise(tags)
        if before.kind == "recommend" and opens_directly_inside(text, before, tag)
    }
    following = (tag for tag in tags if tag.start >= reasoned and tag.opens and tag not in wrapped)
    return (tag for tag in following if tag.kind in ("final", "call"))


def _reasoning_end(tags: Sequence[Tag]) -> int:
    """Return the end of the last tag that closes reasoning, or 0."""
    return max((tag.end for tag in tags if not tag.acts and not tag.opens), default=0)


def opens_directly_inside(text: str, outer: Tag, tag: Tag) -> bool:
    """Return whether `tag` opens right behind `outer`, the opening tag before."""
    return outer.opens and tag.opens and not text[outer.end : tag.start].strip()


def find_tags(text: str) -> Iterator[Tag]:
    """Yield the tags of `text` in order."""
    for match in TAG.finditer(text):
        found = match.lastgroup
        kind: TagKind = "think" if found in ("begins", "ends") else found  # type: ignore[assignment]
        yield Tag(kind, not match[1] and found != "ends", match.start(), match.end())
