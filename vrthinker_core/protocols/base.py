"""What both protocols share: their interface, and the texts of prompts."""

import functools
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import ClassVar, Final, NamedTuple, Protocol

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.parser import read_reply, read_request
from vrthinker_core.protocols.segments import INVISIBLE, PROTOCOL, strip_invisible, to_narrow
from vrthinker_core.protocols.tool_calls import CallRules
from vrthinker_core.types import Frame, FrameRef, FrameSelection, Problem, ProtocolName, Reply
from vrthinker_core.types.frames import FramePlan, Grid
from vrthinker_core.types.messages import Message
from vrthinker_core.types.settings import Preset

_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BRACKETED: Final = re.compile("[<＜][^<>＜＞]*[>＞]")
_TOKEN_START: Final = re.compile(f"[<＜](?={INVISIBLE.pattern}*[|｜])")
_TOKEN_END: Final = re.compile(f"([|｜]{INVISIBLE.pattern}*)[>＞]")

MAX_PROMPT: Final = 10_000
"""Most characters of a prompt: beyond any video prompt, but within every judge's context."""


class PromptProtocol(Protocol):
    """A published prompt protocol: messages to a judge, and reply parsing.

    Indices are always in the protocol's own numbers, as the judge writes them. A `FrameRef` is a
    0-based slot of one video.
    """

    name: ClassVar[ProtocolName]
    max_turns: ClassVar[int]  # Maximum replies, from the card
    # Rounds of tool frames that stay in the conversation, from the card; None keeps all
    window: ClassVar[int | None]
    argument: ClassVar[str]  # Name of a call's list of frames
    redirect: ClassVar[tuple[str, str]]
    """(text that begins a call, text that begins an answer). A forced answer has the second text
    instead of the first."""

    @property
    def preset(self) -> Preset:
        """The wording of the prompts."""

    @property
    def grid(self) -> Grid:
        """The slots of each video."""

    @property
    def numbers(self) -> range:
        """The protocol's numbers of all frames."""

    @property
    def frames_per_call(self) -> int:
        """Maximum number of indices that the calls of one reply may bring."""

    @property
    def rules(self) -> tuple[str, ...]:
        """How the card's open points were decided, in sentences for the trace."""

    @property
    def opening_refs(self) -> tuple[FrameRef, ...]:
        """The frames of the first user message, in sending order."""

    @property
    def system(self) -> str:
        """The system prompt."""

    @property
    def frame_plan(self) -> FramePlan:
        """The grid, the first frames, and the sizes of all frames."""

    def opening_messages(self, prompt: str, frames: Sequence[Frame]) -> tuple[Message, ...]:
        """Return the system message and the first user message.

        `prompt` is sanitised already. `frames` holds a frame for each of `opening_refs`, in order.
        """

    def frame_number(self, ref: FrameRef) -> str:
        """Return the protocol's number of a frame."""

    def frame_refs(self, indices: Sequence[int]) -> tuple[FrameRef, ...]:
        """Return the frames that these valid indices mean, in sending order."""

    def parse(self, text: str, *, cut: bool = False, trained: bool = True) -> Reply:
        """Return the best reading of a reply, with the problems met.

        Never raises. `cut` means that the token limit ended the reply. A judge that was not
        `trained` for the protocol may answer without the tag.
        """
        rules = CallRules(self.numbers, self.frames_per_call)
        return read_reply(text, rules, cut=cut, trained=trained)

    def request(self, text: str) -> tuple[int, ...]:
        """Return the frames that an unfinished reply asks for so far."""
        return read_request(text, CallRules(self.numbers, self.frames_per_call))

    def call(self, indices: Sequence[int]) -> str:
        """Return the card's form of a call for these indices, within its tags."""
        arguments = f'{{"{self.argument}": {list(indices)}}}'
        return f'<tool_call>{{"name": "select_frames", "arguments": {arguments}}}</tool_call>'

    def tool_result(self, indices: Sequence[int], frames: Sequence[Frame]) -> Message:
        """Return the message after a call for these indices.

        `frames` holds a frame for each of `frame_refs(indices)`, in order.
        """

    def tool_error(self, request: FrameSelection | None, problems: Sequence[Problem]) -> Message:
        """Return the protocol's message after a call that brought no frames."""

    def already_shown(self, indices: Sequence[int]) -> Message:
        """Return the message after a call for frames already in the conversation."""

    def retry_message(self, problems: Sequence[Problem]) -> Message:
        """Return the reason and accepted forms after neither answer nor call."""

    def force_answer(self) -> str:
        """Return the request for the answer, added to the last turn's message."""


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
