"""Makes a typed prompt harmless: nothing in it may become a control token or a tag of a protocol."""

import re
from typing import Final

from vrthinker_core.dialects.reading.normalize import INVISIBLE, strip_invisible, to_narrow
from vrthinker_core.dialects.reading.tags import PROTOCOL

_LINE_END: Final = re.compile(r"\r\n?")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BRACKETED: Final = re.compile("[<＜][^<>＜＞]*[>＞]")
_TOKEN_START: Final = re.compile(f"[<＜](?={INVISIBLE.pattern}*[|｜])")
_TOKEN_END: Final = re.compile(f"([|｜]{INVISIBLE.pattern}*)[>＞]")


def sanitize_prompt(text: str) -> tuple[str, bool]:
    """(the sanitised text, whether the person should be told that it was changed).

    Tags and control tokens keep their words but stand in ‹single guillemets›; control characters and byte order marks are removed;
    half a surrogate pair becomes U+FFFD. Other text stays as it is. Line ends become newlines, which does not count as a change.
    """
    lines = _LINE_END.sub("\n", text)
    safe = _LONE_SURROGATE.sub("\ufffd", _CONTROL.sub("", lines))
    safe = _BRACKETED.sub(_without_tag, safe)
    if _TOKEN_START.search(safe):
        safe = _TOKEN_END.sub(r"\1›", _TOKEN_START.sub("‹", safe))
    return safe, safe != lines


def _without_tag(match: re.Match[str]) -> str:
    inside = match[0]
    return f"‹{inside[1:-1]}›" if PROTOCOL.fullmatch(to_narrow(strip_invisible(inside))) else inside
