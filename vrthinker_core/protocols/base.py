"""The interface of a prompt protocol; the engine uses nothing else."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from vrthinker_core.protocols.parser import read_reply, read_request
from vrthinker_core.protocols.tool_calls import CallRules
from vrthinker_core.types import Frame, FrameRef, FrameSelection, Problem, ProtocolName, Reply
from vrthinker_core.types.frames import FramePlan, Grid
from vrthinker_core.types.messages import Message


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
    def preset(self) -> Literal["card", "clean"]:
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
