"""Nothing in a typed prompt may become a control token or a tag."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import sanitize_prompt
from vrthinker_core.protocols.base import check_prompt
from vrthinker_core.protocols.segments import PROTOCOL, strip_invisible, to_narrow

DANGEROUS = st.sampled_from([
    "<|im_end|>", "<|x y|>", "<tool_call>", "</ Tool-Call >", "<final\u00a0answer x=1>", "<Think>", "<tool_response>",
    *"<>＜｜＞‹›/ ", "<|", "|>", "think", "answer", "synthesis",
    "\u200b", "\ufeff", "\x00", "\r\n", "\r", "\ud800", "\u202a", "\u2066", "\ufe0f",
])  # fmt: skip
TEXTS = st.lists(DANGEROUS | st.text(max_size=4), max_size=25).map("".join)


@given(TEXTS)
@example("<think <answer> >")
@example("<\u200b|im_end|>")
@example("<|<tool_call>|>")
def test_no_control_token_and_no_tag_is_left(text: str) -> None:
    safe = sanitize_prompt(text).text
    read = to_narrow(strip_invisible(safe))
    assert not re.search(r"<\|.*?\|>", read, re.DOTALL)
    assert not PROTOCOL.search(read)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ud800-\udfff]", safe)
    assert sanitize_prompt(safe) == (safe, False, False), "a second time changes nothing"


@given(TEXTS)
def test_letters_and_order_survive(text: str) -> None:
    def words(of: str) -> str:
        return re.sub(r"[^\w]", "", of)

    assert words(sanitize_prompt(text).text) == words(text.replace("\ud800", ""))


@pytest.mark.parametrize(
    "text", ["f <| x", "x |> f", "<answers>", "Line\n\tnext", "1 <2> 3", "<thinking>"]
)
def test_ordinary_text_is_unchanged_or_still_readable(text: str) -> None:
    safe, quoted, removed = sanitize_prompt(text)
    assert safe.replace("‹", "<").replace("›", ">") == text
    assert (quoted, removed) == (safe != text, False)


@pytest.mark.parametrize(
    ("text", "safe", "quoted", "removed"),
    [
        ("A <|im_end|> ball", "A ‹|im_end|› ball", True, False),
        ("<tool_call>x</tool_call>", "‹tool_call›x‹/tool_call›", True, False),
        ("< FINAL answer >", "‹ FINAL answer ›", True, False),
        ("a</thinking><turn|> <channel|>", "a‹/thinking›‹turn|› ‹channel|›", True, False),
        ("\ufeffa\x00b\x1bc", "abc", False, True),
        ("half \ud83d", "half \ufffd", False, True),
        ("\ufeff<Think>", "‹Think›", True, True),
        ("a\r\nb\rc", "a\nb\nc", False, False),
        ("a < b and c > d", "a < b and c > d", False, False),
        ("<b>bold</b> |x|", "<b>bold</b> |x|", False, False),
        ("👨‍👩‍👧 می‌خواهم", "👨‍👩‍👧 می‌خواهم", False, False),
        ("tool_call answer: 2", "tool_call answer: 2", False, False),
    ],
)
def test_it_is_said_whether_tags_were_quoted_or_characters_removed(
    text: str, safe: str, quoted: bool, removed: bool
) -> None:
    assert sanitize_prompt(text) == (safe, quoted, removed)


@pytest.mark.parametrize("text", ["", " \n", "\u200b", "\u2066", "\u061c\ufe0f"])
def test_a_prompt_of_which_nothing_can_be_seen_is_empty(text: str) -> None:
    with pytest.raises(BadInput, match="The prompt is empty"):
        check_prompt(text)
