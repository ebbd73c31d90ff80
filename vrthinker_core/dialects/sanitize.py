"""What a person types is text: no character of it may become a control token or a tag of a protocol."""

from __future__ import annotations

import re
from typing import Final

from vrthinker_core.dialects.reading.normalize import INVISIBLE, strip_invisible, to_narrow
from vrthinker_core.dialects.reading.tags import PROTOCOL

_LINE_END: Final = re.compile(r"\r\n?")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_LONE: Final = re.compile("[\ud800-\udfff]")
_BRACKETED: Final = re.compile("[<＜][^<>＜＞]*[>＞]")
_TOKEN: Final = re.compile(f"[<＜](?={INVISIBLE.pattern}*[|｜])")
_TOKEN_END: Final = re.compile(f"([|｜]{INVISIBLE.pattern}*)[>＞]")


def sanitize_prompt(text: str) -> tuple[str, bool]:
    """(`text` made harmless, whether the person should be told).

    Tags and control tokens keep their words but stand in ‹single guillemets›; control characters and byte order marks go; half a
    surrogate pair becomes U+FFFD. Neutral text stays as it is. Line ends become newlines, which is nothing to tell.
    """
    lines = _LINE_END.sub("\n", text)
    safe = _LONE.sub("\ufffd", _CONTROL.sub("", lines))
    safe = _BRACKETED.sub(_without_tag, safe)
    if _TOKEN.search(safe):
        safe = _TOKEN_END.sub(r"\1›", _TOKEN.sub("‹", safe))
    return safe, safe != lines


def _without_tag(match: re.Match[str]) -> str:
    inside = match[0]
    return f"‹{inside[1:-1]}›" if PROTOCOL.fullmatch(to_narrow(strip_invisible(inside))) else inside
