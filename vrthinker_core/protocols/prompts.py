"""The texts of prompts: the published ones, and a person's without injected tags."""

import functools
import re
from importlib.resources import files
from typing import Final, NamedTuple

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.segments import INVISIBLE, PROTOCOL, strip_invisible, to_narrow

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BRACKETED: Final = re.compile("[<＜][^<>＜＞]*[>＞]")
_TOKEN_START: Final = re.compile(f"[<＜](?={INVISIBLE.pattern}*[|｜])")
_TOKEN_END: Final = re.compile(f"([|｜]{INVISIBLE.pattern}*)[>＞]")

MAX_PROMPT: Final = 10_000
"""Most characters of a prompt: beyond any video prompt, but within every judge's context."""


def prompt_text(name: str, **values: str) -> str:
    """Return the text of prompts/`name`.txt, with `values` for its placeholders.

    Raises `KeyError` for a placeholder without a value.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: values[placeholder[1]], _template(name))


# Cached, so that a run can begin even when no more files can be opened
@functools.cache
def _template(name: str) -> str:
    path = files("vrthinker_core.protocols") / "prompts" / f"{name}.txt"
    return path.read_bytes().decode()


class SanitizedPrompt(NamedTuple):
    """A prompt as it is sent."""

    text: str
    quoted: bool  # Control tokens or tags were put in guillemets
    removed: bool  # Control characters, byte order marks or lone surrogates are gone

    @property
    def empty(self) -> bool:
        """Whether the prompt holds nothing visible."""
        return not strip_invisible(self.text).strip()

    @property
    def notes(self) -> tuple[str, ...]:
        """The changes to the prompt, one sentence each."""
        quoted = "control tokens or protocol tags; they were sent as plain text."
        removed = (
            "control characters or byte order marks, which cannot be seen; they were left out."
        )
        told = ((self.quoted, quoted), (self.removed, removed))
        return tuple(f"The prompt holds {what}" for holds, what in told if holds)


def sanitize_prompt(text: str) -> SanitizedPrompt:
    """Return the prompt without anything that a judge could obey.

    Tags and control tokens keep their words but stand in ‹single guillemets›. Control characters
    and byte order marks are removed. A lone surrogate becomes U+FFFD. Line ends become newlines,
    without a note. Other text stays as it is.
    """

    def without_tag(match: re.Match[str]) -> str:
        is_tag = PROTOCOL.fullmatch(to_narrow(strip_invisible(match[0])))
        return f"‹{match[0][1:-1]}›" if is_tag else match[0]

    lines = re.sub(r"\r\n?", "\n", text)
    kept = _LONE_SURROGATE.sub("\ufffd", _CONTROL.sub("", lines))
    safe = _BRACKETED.sub(without_tag, kept)
    if _TOKEN_START.search(safe):
        safe = _TOKEN_END.sub(r"\1›", _TOKEN_START.sub("‹", safe))
    return SanitizedPrompt(safe, safe != kept, kept != lines)


def check_prompt(text: str) -> None:
    """Raise `BadInput` if the prompt is empty or longer than `MAX_PROMPT` characters."""
    if sanitize_prompt(text).empty:
        raise BadInput("The prompt is empty. Write the text that both videos were made from.")
    if len(text) > MAX_PROMPT:
        raise BadInput(
            f"The prompt has {len(text):,} characters; at most {MAX_PROMPT:,} are read. Shorten it."
        )
