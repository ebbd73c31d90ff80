"""Makes a typed prompt harmless: nothing in it may become a control token or a tag of a protocol."""

import re
from typing import Final, NamedTuple

from vrthinker_core.dialects.reading.normalize import INVISIBLE, strip_invisible, to_narrow
from vrthinker_core.dialects.reading.tags import PROTOCOL
from vrthinker_core.errors import BadInput

_LINE_END: Final = re.compile(r"\r\n?")
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BRACKETED: Final = re.compile("[<＜][^<>＜＞]*[>＞]")
_TOKEN_START: Final = re.compile(f"[<＜](?={INVISIBLE.pattern}*[|｜])")
_TOKEN_END: Final = re.compile(f"([|｜]{INVISIBLE.pattern}*)[>＞]")

MAX_PROMPT: Final = 10_000
"""Characters of a prompt that are read: far beyond any video prompt, and short enough for every judge's context."""


class SanitizedPrompt(NamedTuple):
    """A prompt as it is sent."""

    text: str
    quoted: bool  # Control tokens or tags stand in guillemets
    removed: bool  # Control characters, byte order marks or half characters are gone

    @property
    def empty(self) -> bool:
        """It holds nothing that can be seen."""
        return not strip_invisible(self.text).strip()

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of it, one sentence each."""
        told = (
            (
                self.quoted,
                "The prompt holds control tokens or protocol tags; they were sent as plain text.",
            ),
            (
                self.removed,
                "The prompt holds control characters or byte order marks, which cannot be seen; they were left out.",
            ),
        )
        return tuple(sentence for holds, sentence in told if holds)


def sanitize_prompt(text: str) -> SanitizedPrompt:
    """The prompt without anything that a judge could take for a command.

    Tags and control tokens keep their words but stand in ‹single guillemets›; control characters and byte order marks are removed;
    half a surrogate pair becomes U+FFFD. Other text stays as it is. Line ends become newlines, of which nobody is told.
    """
    lines = _LINE_END.sub("\n", text)
    kept = _LONE_SURROGATE.sub("\ufffd", _CONTROL.sub("", lines))
    safe = _BRACKETED.sub(_without_tag, kept)
    if _TOKEN_START.search(safe):
        safe = _TOKEN_END.sub(r"\1›", _TOKEN_START.sub("‹", safe))
    return SanitizedPrompt(safe, safe != kept, kept != lines)


def check_prompt(text: str) -> None:
    """Raises BadInput for a prompt that says nothing, or too much."""
    if sanitize_prompt(text).empty:
        raise BadInput("The prompt is empty. Write the text that both videos were made from.")
    check_length(text)


def check_length(text: str) -> None:
    """Raises BadInput for a prompt of more than MAX_PROMPT characters."""
    if len(text) > MAX_PROMPT:
        raise BadInput(
            f"The prompt has {len(text):,} characters; at most {MAX_PROMPT:,} are read. Shorten it."
        )


def _without_tag(match: re.Match[str]) -> str:
    inside = match[0]
    return f"‹{inside[1:-1]}›" if PROTOCOL.fullmatch(to_narrow(strip_invisible(inside))) else inside
