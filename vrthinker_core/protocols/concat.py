"""The `concat` protocol: one list of frames over both videos, from 1.

Checkpoint: qunwang13/vr-thinker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Final, Literal

from vrthinker_core.protocols.base import PromptProtocol, prompt_text
from vrthinker_core.protocols.parser import by_severity, reason, retry_text
from vrthinker_core.types import (
    Frame,
    FrameRef,
    FrameSelection,
    Problem,
    ProblemKind,
    ProtocolName,
    Reply,
    Side,
)
from vrthinker_core.types.frames import IMAGE_FACTOR, FramePlan, Grid, Sizing
from vrthinker_core.types.messages import Image, Message, Text, Video
from vrthinker_core.types.settings import Preset

MAX_PER_CALL: Final = 8
OPENING_COUNT: Final = 8  # As the judge was trained, and as `paired` opens
OPENING_AREA: Final = 512 * IMAGE_FACTOR * IMAGE_FACTOR  # Maximum pixels of a first frame
TOOL_AREA: Final = 400 * IMAGE_FACTOR * IMAGE_FACTOR  # Maximum pixels of a frame that a call brings

ALIGNMENT: Final = "Alignment between video content and prompt"
DIMENSIONS: Final[dict[Preset, tuple[str, str, str]]] = {
    "paper": (
        f"Text Alignment(TA):\n{ALIGNMENT}",
        "Visual Quality(VQ):\nThe visual aesthetics of the video",
        "Motion Quality(MQ):\nLevel of motion coherence",
    ),
    "paper-rapidata": (
        f"Alignment(TA):\n{ALIGNMENT}",
        "Preference(VQ):\nThe intrinsic aesthetics of the video",
        "Coherence(MQ):\nLevel of temporal coherence",
    ),
    "paper-mj-bench-video": (
        f"Alignment(TA):\n{ALIGNMENT}",
        "Fineness(VQ):\nThe level of fineness in visual content",
        "Coherence & Consistency(MQ):\nLevel of temporal coherence and Consistency",
    ),
}
"""TA, VQ and MQ of the paper's wording, by data set (arXiv 2510.10518v4, Appendix D)."""


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

    preset: Preset = "card"
    frames_per_call: int = MAX_PER_CALL
    total: int = 96
    # How the first frames are chosen and packed
    opening_rule: Literal["training", "card"] = "training"
    opening_frames: int = OPENING_COUNT

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
        each, shown = (_in_words(self.opening_frames // part) for part in (2, 1))
        chosen = f"the nearest in the list to {each} spread evenly over each video"
        packed = f"two video items of {each} frames"
        if self.opening_rule == "training":
            chosen = f"every {total / self.opening_frames:g}th of the list"
            packed = (
                f"one video item of {shown} frames; two items of {each} where the videos differ in "
                "shape"
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
        """The frames of video 1, then as many of video 2: by default four."""
        many = self.opening_frames
        if self.opening_rule == "training":
            return self.frame_refs([k * self.total // many + 1 for k in range(many)])
        last, gaps = self.total // 2 - 1, many // 2 - 1
        slots = [round(k * last / gaps) for k in range(many // 2)]
        return tuple(FrameRef(slot, side) for side in Side for slot in slots)

    @property
    def system(self) -> str:
        """The card's system prompt. The paper's only lacks the limit of 8 frames in a call."""
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
        half, each = self.total // 2, self.opening_frames // 2
        ta, vq, mq = DIMENSIONS.get(self.preset, ("", "", ""))
        question = prompt_text(
            f"concat_user_{self.preset.partition('-')[0]}",
            **{"prompt": prompt, "total": f"{self.total}", "ta": ta, "vq": vq, "mq": mq},
            **{"shown": f"{self.opening_frames}", "each": f"{each}", "words": _in_words(each)},
            half=f"{float(half)}" if self.preset == "card" else f"{half}",
        )
        sizes = {(frame.width, frame.height) for frame in frames}
        if self.opening_rule == "training" and len(sizes) == 1:
            videos = [Video(tuple(frames))]
        else:
            videos = [
                Video(tuple(group)) for _, group in groupby(frames, lambda frame: frame.ref.side)
            ]
        system = Message("system", (Text(self.system),))
        return system, Message("user", (*videos, Text(question)))

    def parse(self, text: str, *, cut: bool = False, trained: bool = True) -> Reply:
        """Return the best reading of a reply; a higher confidence is always surer.

        The paper's wording counts the other way round, from 1 (high) to 3 (low).
        """
        reply = PromptProtocol.parse(self, text, cut=cut, trained=trained)
        if reply.confidence is None or self.preset not in DIMENSIONS:
            return reply
        if reply.confidence <= 3:
            return replace(reply, confidence=4 - reply.confidence)
        told = "The confidence is not one number from 1 to 3 and was left out."
        problems = by_severity((*reply.problems, Problem(ProblemKind.BAD_CONFIDENCE, told)))
        return replace(reply, confidence=None, problems=problems)

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


def _in_words(number: int) -> str:
    """Write the card's own numbers as it does."""
    return {4: "four", 8: "eight"}.get(number, f"{number}")


def _tool_error_text(text: str) -> Message:
    return Message("user", (Text(f"After selecting frames:\n{text}"),))
