"""The `concat` protocol: one list of frames over both videos, from 1.

Checkpoint: qunwang13/vr-thinker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Final, Literal

from vrthinker_core.protocols.base import PromptProtocol, prompt_text
from vrthinker_core.protocols.parser import reason, retry_text
from vrthinker_core.types import Frame, FrameRef, FrameSelection, Problem, ProtocolName, Side
from vrthinker_core.types.frames import IMAGE_FACTOR, FramePlan, Grid, Sizing
from vrthinker_core.types.messages import Image, Message, Text, Video

MAX_PER_CALL: Final = 8
OPENING_COUNT: Final = 8
OPENING_AREA: Final = 512 * IMAGE_FACTOR * IMAGE_FACTOR  # Maximum pixels of a first frame
TOOL_AREA: Final = 400 * IMAGE_FACTOR * IMAGE_FACTOR  # Maximum pixels of a frame that a call brings


@dataclass(frozen=True, slots=True)
class Concat(PromptProtocol):
    """The `concat` protocol.

    `total` is N, an even number: frames 1 to N / 2 are of video 1, the others of video 2.
    """

    name: ClassVar[ProtocolName] = "concat"
    max_turns: ClassVar[int] = 4  # Three calls, then the answer
    window: ClassVar[int | None] = 1  # The paper's default
    argument: ClassVar[str] = "target_frames"
    redirect: ClassVar[tuple[str, str]] = ("<tool_call>", "<final answer>")

    preset: Literal["card", "clean"] = "card"
    frames_per_call: int = MAX_PER_CALL
    total: int = 96
    # How the first frames are chosen and packed
    opening_rule: Literal["training", "card"] = "training"

    @property
    def grid(self) -> Grid:
        """The slots of each video: half of the list."""
        return Grid(self.total // 2, "even")

    @property
    def numbers(self) -> range:
        """The positions in the list of both videos."""
        return range(1, self.total + 1)

    @property
    def rules(self) -> tuple[str, ...]:
        """How the card's open points were decided."""
        half, total = self.total // 2, self.total
        numbers = ", ".join(self.frame_number(ref) for ref in self.opening_refs)
        chosen = "the nearest in the list to four spread evenly over each video"
        packed = "two video items of four frames"
        if self.opening_rule == "training":
            chosen = f"every {total / OPENING_COUNT:g}th of the list"
            packed = (
                "one video item of eight frames; two items of four where the videos differ in shape"
            )
        return (
            f"Frames 1 to {half} are spread evenly over video 1 and {half + 1} to {total} over "
            "video 2, both ends included; the card does not publish its rule.",
            f"First frames: {numbers} ({chosen}).",
            f"Packing of the first frames: {packed}.",
            f"Frames keep their aspect, with at most {OPENING_AREA:,} pixels at first and "
            f"{TOOL_AREA:,} after a call.",
        )

    @property
    def opening_refs(self) -> tuple[FrameRef, ...]:
        """Four frames of video 1, then four of video 2."""
        if self.opening_rule == "training":
            steps = range(OPENING_COUNT)
            return self.frame_refs([k * self.total // OPENING_COUNT + 1 for k in steps])
        last = self.total // 2 - 1
        return tuple(FrameRef(round(k * last / 3), side) for side in Side for k in range(4))

    @property
    def system(self) -> str:
        """The card's system prompt."""
        return prompt_text("concat_system")

    @property
    def frame_plan(self) -> FramePlan:
        """Keep the aspect and limit the area."""
        opening, later = (Sizing("area", area=area) for area in (OPENING_AREA, TOOL_AREA))
        return FramePlan(self.grid, opening, later, self.opening_refs)

    def opening_messages(self, prompt: str, frames: Sequence[Frame]) -> tuple[Message, ...]:
        """Return the system prompt, then the first frames and the question.

        A video item holds frames of one size. If the two videos differ in shape, each gets an item
        of its own.
        """
        name, half = f"concat_user_{self.preset}", self.total // 2
        shown = f"{float(half)}" if self.preset == "card" else f"{half}"
        question = Text(prompt_text(name, prompt=prompt, total=f"{self.total}", half=shown))
        sizes = {(frame.width, frame.height) for frame in frames}
        if self.opening_rule == "training" and len(sizes) == 1:
            videos = [Video(tuple(frames))]
        else:
            videos = [
                Video(tuple(group)) for _, group in groupby(frames, lambda frame: frame.ref.side)
            ]
        system = Message("system", (Text(self.system),))
        return system, Message("user", (*videos, question))

    def frame_number(self, ref: FrameRef) -> str:
        """Return the position in the list of both videos, from 1."""
        return str(ref.slot + 1 + (self.total // 2 if ref.side is Side.SECOND else 0))

    def frame_refs(self, indices: Sequence[int]) -> tuple[FrameRef, ...]:
        """Return the frames in the order of the indices."""
        half = self.total // 2
        return tuple(
            FrameRef((index - 1) % half, Side.FIRST if index <= half else Side.SECOND)
            for index in indices
        )

    def tool_result(self, indices: Sequence[int], frames: Sequence[Frame]) -> Message:
        """Return the card's sentence, then the frames as images.

        Raises `ValueError` unless there is one frame per index.
        """
        if len(frames) != len(indices):
            raise ValueError(f"{len(indices)} indices are {len(indices)} frames, not {len(frames)}")
        told = Text("\nAfter selecting frames: Here are the selected frames")
        return Message("user", (told, *map(Image, frames)))

    def tool_error(self, request: FrameSelection | None, problems: Sequence[Problem]) -> Message:
        """Return the card's refusal of frames that do not exist.

        If no call could be read, the message is only the reason. The card's refusal of too many
        frames is not used: a call past the limit brings its first frames.
        """
        if request is None:
            return _tool_error_text(reason(problems, "The call names no frame."))
        numbered = f"There are {self.total} frames numbered in range [1,{self.total}]."
        return _tool_error_text(f"{numbered} Your selection is out of range.")

    def already_shown(self, indices: Sequence[int]) -> Message:
        """Return a message without frames: they are in the conversation."""
        shown = f"The frames {list(indices)} are already shown above."
        return _tool_error_text(f"{shown} Select other frames, or give your answer.")

    def retry_message(self, problems: Sequence[Problem]) -> Message:
        """Return the reason and all accepted forms."""
        call = self.call(()).replace("[]", "[...]")
        labels = "TA=..., VQ=..., MQ=..., OA=..."
        limits = f"(1 to {self.frames_per_call} of the frames 1 to {self.total})"
        recommended = f"<recommend answer>{labels}, CF=...</recommend answer> followed by {call}"
        forms = f"either <final answer>{labels}</final answer>, or {recommended} {limits}"
        return Message("user", (Text(retry_text(problems, forms)),))

    def force_answer(self) -> str:
        """Return the request for the answer."""
        return (
            "\nThis is the last turn: no more frames can be selected. "
            "Give your <final answer></final answer> now."
        )


def _tool_error_text(text: str) -> Message:
    return Message("user", (Text(f"After selecting frames:\n{text}"),))
