"""What the engine asks of a protocol. One comparison knows its protocol only through this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from vrthinker_core.types import Frame, FrameRef, FrameSelection, Problem, Reply, Verdict
from vrthinker_core.types.geometry import Grid, Sizing
from vrthinker_core.types.messages import Message


class Dialect(Protocol):
    """A published prompt protocol: how a comparison is put to a judge, and how its replies are read.

    Indices are always in the protocol's own numbers, as the judge writes them; `FrameRef`s are 0-based slots of one video.
    """

    @property
    def name(self) -> Literal["concat", "paired"]:
        """The protocol."""

    @property
    def preset(self) -> Literal["card", "clean"]:
        """Which wording of the prompts."""

    @property
    def grid(self) -> Grid:
        """The slots of each video."""

    @property
    def frames_per_call(self) -> int:
        """Most indices one reply may bring."""

    @property
    def max_turns(self) -> int:
        """The card's own number of replies."""

    @property
    def window(self) -> int | None:
        """Rounds of tool frames the card keeps in view; None keeps all."""

    @property
    def rules(self) -> tuple[str, ...]:
        """How the card's open points were decided, one sentence each, for the trace."""

    @property
    def redirect(self) -> tuple[str, str]:
        """What a judge writes to begin a call, and what it writes to begin its answer."""

    @property
    def opening_refs(self) -> tuple[FrameRef, ...]:
        """The first frames, in sending order."""

    @property
    def system(self) -> str:
        """The system prompt."""

    def sizing(self, opening: bool) -> Sizing:
        """How frames are resized: those of the opening, or those a call brings."""

    def opening_messages(self, prompt: str, frames: Sequence[Frame]) -> tuple[Message, ...]:
        """The system and the first user message. `prompt` is neutral already; `frames` are those of `opening_refs`, in order."""

    def frame_number(self, ref: FrameRef) -> str:
        """What the protocol calls a frame."""

    def frame_refs(self, indices: Sequence[int]) -> tuple[FrameRef, ...]:
        """The frames that valid indices mean, in sending order."""

    def parse(self, text: str, *, cut: bool = False) -> Reply:
        """The best reading of a reply; never raises. `cut`: the token limit ended it."""

    def tool_result(self, indices: Sequence[int], frames: Sequence[Frame]) -> Message:
        """The answer to a call that brought these indices: `frames` are those of `refs(indices)`, in order."""

    def tool_error(self, request: FrameSelection | None, problems: Sequence[Problem]) -> Message:
        """The answer to a call that brought nothing, in the protocol's form."""

    def already_shown(self, indices: Sequence[int]) -> Message:
        """The answer to a call for frames that are all in view."""

    def retry_message(self, problems: Sequence[Problem]) -> Message:
        """The answer to a reply that cannot be acted on: the reason, and what is accepted."""

    def force_answer(self) -> str:
        """What is added to the last message on the last turn."""

    def render_answer(self, verdict: Verdict, *, final: bool = True, confidence: int | None = None) -> str:
        """An answer as the protocol writes it: `parse` reads the same verdict back."""


def answer_text(verdict: Verdict, confidence: int | None) -> str:
    """The labels as both cards write them: "TA=1, VQ=1, MQ=0, OA=1"; labels that are None are left out."""
    labels = verdict.labels
    written = [f"{name}={labels[name]}" for name in ("TA", "VQ", "MQ", "OA") if name in labels]
    return ", ".join([*written, *([] if confidence is None else [f"CF={confidence}"])])
