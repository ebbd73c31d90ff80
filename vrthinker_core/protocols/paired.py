"""The `paired` protocol: one index means a frame of BOTH videos.

Indices are 0 to 127. Checkpoint: qunwang13/vrthinker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from vrthinker_core.protocols.base import PromptProtocol, prompt_text
from vrthinker_core.protocols.parser import reason, retry_text
from vrthinker_core.types import Frame, FrameRef, FrameSelection, Problem, ProtocolName, Side
from vrthinker_core.types.frames import FramePlan, Grid, Sizing
from vrthinker_core.types.messages import Image, Message, Text
from vrthinker_core.types.settings import Preset

SLOTS: Final = 128
FRAME_SIDE: Final = 448  # Pixels per side of every frame
MAX_PER_CALL: Final = 12
OPENING_SLOTS: Final = (16, 48, 80, 112)  # The middles of four equal bins


@dataclass(frozen=True, slots=True)
class Paired(PromptProtocol):
    """The `paired` protocol."""

    name: ClassVar[ProtocolName] = "paired"
    grid: ClassVar[Grid] = Grid(SLOTS, "floor")
    numbers: ClassVar[range] = range(SLOTS)
    argument: ClassVar[str] = "frame_indices"
    max_turns: ClassVar[int] = 6
    window: ClassVar[int | None] = None  # The card publishes none
    redirect: ClassVar[tuple[str, str]] = ("<tool_call>", "<Answer>")
    opening_refs: ClassVar[tuple[FrameRef, ...]] = tuple(
        FrameRef(slot, side) for side in Side for slot in OPENING_SLOTS
    )

    # All are the same here: the card's wording has no faults, and the paper has no other
    preset: Preset = "card"
    frames_per_call: int = MAX_PER_CALL
    fit: Literal["squash", "letterbox"] = "squash"

    @property
    def rules(self) -> tuple[str, ...]:
        """How the card's open points were decided."""
        size = f"to {FRAME_SIDE} x {FRAME_SIDE} pixels"
        fits = {
            "squash": f"Frames are squashed {size}, as the judge was trained.",
            "letterbox": f"Frames are letterboxed {size}; the judge was trained on squashed ones.",
        }
        return (
            f"Index i is the real frame min(int(i / {SLOTS} * total), total - 1) of both videos.",
            "First frames: indices 16, 48, 80 and 112 of video 1, then of video 2.",
            "Packing: every frame is an image of its own.",
            fits[self.fit],
        )

    @property
    def system(self) -> str:
        """The card's system prompt."""
        return prompt_text("paired_system")

    @property
    def frame_plan(self) -> FramePlan:
        """Ask for 448 x 448 pixels of every frame."""
        sizing = Sizing("letterbox" if self.fit == "letterbox" else "square", side=FRAME_SIDE)
        return FramePlan(self.grid, sizing, sizing, self.opening_refs)

    def opening_messages(self, prompt: str, frames: Sequence[Frame]) -> tuple[Message, ...]:
        """Return the system prompt, then the first frames as images, the question."""
        question = Text(prompt_text("paired_user", prompt=prompt))
        system = Message("system", (Text(self.system),))
        return system, Message("user", (*map(Image, frames), question))

    def frame_number(self, ref: FrameRef) -> str:
        """Return the index, the same for both videos."""
        return str(ref.slot)

    def frame_refs(self, indices: Sequence[int]) -> tuple[FrameRef, ...]:
        """Return `v1[i], v2[i], v1[j], v2[j], ...`."""
        return tuple(FrameRef(index, side) for index in indices for side in Side)

    def tool_result(self, indices: Sequence[int], frames: Sequence[Frame]) -> Message:
        """Return the frames as images, then the number of pairs.

        Raises `ValueError` unless there are two frames per index.
        """
        count = len(indices)
        if len(frames) != 2 * count:
            raise ValueError(f"{count} indices are {2 * count} frames, not {len(frames)}")
        text = f"Retrieved {count} frame pairs ({list(indices)}) symmetrically from both videos."
        return Message("user", (*map(Image, frames), _tool_response(text)))

    def tool_error(
        self,
        request: FrameSelection | None,  # noqa: ARG002 - the problems say it all
        problems: Sequence[Problem],
    ) -> Message:
        """Return the reason, in the tags of a tool response."""
        why = reason(problems, "The call names no frame.")
        text = f"{why} No frames were retrieved: {self._accepted_calls}."
        return Message("user", (_tool_response(text),))

    def already_shown(self, indices: Sequence[int]) -> Message:
        """Return a message without frames: they are in the conversation."""
        shown = f"The frame pairs ({list(indices)}) are already shown above."
        text = f"{shown} Select other frames, or give your answer."
        return Message("user", (_tool_response(text),))

    def retry_message(self, problems: Sequence[Problem]) -> Message:
        """Return the reason and both accepted forms."""
        call = f"{self.call(()).replace('[]', '[...]')} ({self._accepted_calls})"
        answer = "<Answer>TA=..., VQ=..., MQ=..., OA=...</Answer>"
        forms = f"either a tool call, {call}, or the final judgment, {answer}"
        return Message("user", (Text(retry_text(problems, forms)),))

    def force_answer(self) -> str:
        """Return the request for the answer."""
        return (
            "\nThis is the last turn: no more frames can be selected. "
            "Give your final judgment now, within <Answer></Answer> tags."
        )

    @property
    def _accepted_calls(self) -> str:
        return f"each call takes 1 to {self.frames_per_call} of the indices 0 to {SLOTS - 1}"


def _tool_response(text: str) -> Text:
    return Text(f"<tool_response>{text}</tool_response>")
