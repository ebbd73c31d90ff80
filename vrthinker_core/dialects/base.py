"""The interface of a prompt protocol: all that the engine knows of `concat` and `paired`."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from vrthinker_core.types import Frame, FrameRef, FrameSelection, Problem, ProtocolName, Reply
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.types.messages import Message


class Dialect(Protocol):
    """A published prompt protocol: the messages a judge is sent, and how its replies are read.

    Indices are always in the protocol's own numbers, as the judge writes them; a `FrameRef` is a 0-based slot of one video.
    """

    name: ClassVar[ProtocolName]
    max_turns: ClassVar[int]  # Replies at most, as the card says
    window: ClassVar[
        int | None
    ]  # Rounds of tool frames that stay in the conversation, as the card says; None keeps all
    redirect: ClassVar[tuple[str, str]]
    """(text that begins a call, text that begins an answer): a forced answer has the second in place of the first."""

    @property
    def preset(self) -> Literal["card", "clean"]:
        """Which wording of the prompts."""

    @property
    def grid(self) -> Grid:
        """The slots of each video."""

    @property
    def frames_per_call(self) -> int:
        """Most indices that the calls of one reply may bring."""

    @property
    def rules(self) -> tuple[str, ...]:
        """What the card leaves open and how it was decided, one sentence each, for the trace."""

    @property
    def opening_refs(self) -> tuple[FrameRef, ...]:
        """The frames of the first user message, in sending order."""

    @property
    def system(self) -> str:
        """The system prompt."""

    def sizing(self, opening: bool) -> Sizing:
        """How frames are resized: those of the first user message (`opening`), or those that a call brings."""

    def opening_messages(self, prompt: str, frames: Sequence[Frame]) -> tuple[Message, ...]:
        """The system and the first user message. `prompt` is sanitised already; `frames` are those of `opening_refs`, in order."""

    def frame_number(self, ref: FrameRef) -> str:
        """The number by which the protocol calls a frame."""

    def frame_refs(self, indices: Sequence[int]) -> tuple[FrameRef, ...]:
        """The frames that these valid indices mean, in sending order."""

    def parse(self, text: str, *, cut: bool = False) -> Reply:
        """The best reading of a reply, with the problems met; never raises. `cut`: the token limit ended it."""

    def call(self, indices: Sequence[int]) -> str:
        """A call for these indices, as a judge writes it."""

    def tool_result(self, indices: Sequence[int], frames: Sequence[Frame]) -> Message:
        """The message after a call for these indices: `frames` are those of `frame_refs(indices)`, in order."""

    def tool_error(self, request: FrameSelection | None, problems: Sequence[Problem]) -> Message:
        """The message after a call that brought no frames, in the protocol's form."""

    def already_shown(self, indices: Sequence[int]) -> Message:
        """The message after a call for frames that are all in the conversation already."""

    def retry_message(self, problems: Sequence[Problem]) -> Message:
        """The message after a reply that is neither answer nor call: the reason, and what is accepted."""

    def force_answer(self) -> str:
        """Text added to the last message on the last turn, which asks for the answer."""
