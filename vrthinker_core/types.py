"""The nouns. Start reading here: everything else in the package speaks in these words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import ClassVar, Literal

# -- what is judged ------------------------------------------------------------------------------------------------------


class Side(IntEnum):
    """Which of the two videos."""

    FIRST = 1
    SECOND = 2


class Preference(IntEnum):
    """One label of a verdict, in the published numbers."""

    TIE = 0
    FIRST = 1
    SECOND = 2


class Dimension(StrEnum):
    """What is compared, in the order of the model card."""

    TA = "TA"
    """Text alignment: how faithfully a video shows the prompt."""
    MQ = "MQ"
    """Motion quality: smoothness, jitter, unnatural motion, consistency over time."""
    VQ = "VQ"
    """Visual quality: aesthetics, artefacts, blur, distortion, flicker."""
    OA = "OA"
    """Overall."""


@dataclass(frozen=True, slots=True)
class VideoPair:
    """Two videos made from one prompt: what a comparison is about."""

    prompt: str
    first: Path | str
    second: Path | str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One label per dimension. None means the judge did not say: a missing label is not a tie."""

    TA: Preference | None = None
    MQ: Preference | None = None
    VQ: Preference | None = None
    OA: Preference | None = None

    def __iter__(self) -> Iterator[tuple[Dimension, Preference | None]]:
        return iter([(d, getattr(self, d.value)) for d in Dimension])

    @property
    def labels(self) -> dict[str, int]:
        """The readable labels, in the card's order: {"TA": 1, "MQ": 0, …}."""
        return {dimension.value: int(label) for dimension, label in self if label is not None}

    @property
    def whole(self) -> bool:
        """All four dimensions are there."""
        return len(self.labels) == len(Dimension)


# -- frames --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, order=True)
class FrameRef:
    """A slot of one video, 0-based whatever numbers the protocol prints."""

    slot: int
    side: Side


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame as it is sent to a judge."""

    ref: FrameRef
    index: int
    """The real frame in the file, 0-based, as a full sequential decode counts."""
    seconds: float
    """When it appears, from the file's own timestamps, 0 for the first frame."""
    until: float
    """When the next frame replaces it."""
    width: int
    height: int
    key: str
    """Content of the clip, real index and size: equal keys mean equal pixels, so a picture is never encoded twice."""
    rgb: bytes = field(repr=False, compare=False)
    """height * width * 3 bytes, row by row."""
    note: str = ""
    """Why this is not the very frame that was asked for ("" when it is)."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A frame as a trace keeps it: small, and enough to find the moment again."""

    __pydantic_config__: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    ref: FrameRef
    number: str
    """What the protocol calls it, as printed to the judge."""
    index: int
    seconds: float
    until: float
    jpeg: bytes = field(repr=False)
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """One video as it was found: what stands in a trace under "input health"."""

    name: str
    digest: str
    container: str
    codec: str
    width: int
    height: int
    """Shown size in pixels: after rotation and pixel aspect."""
    frames: int
    """Frames that a full sequential decode gives."""
    fps: float
    seconds: float
    rotation: int = 0
    variable_rate: bool = False
    notes: tuple[str, ...] = ()
    """Health notes, one sentence each, for the person and never for the judge."""


# -- replies -------------------------------------------------------------------------------------------------------------


class ProblemKind(StrEnum):
    """The named problems of a reply."""

    EMPTY = "empty"
    NO_ACTION = "no_action"
    TRUNCATED = "truncated"
    BAD_JSON = "bad_json"
    UNKNOWN_TOOL = "unknown_tool"
    NO_VALID_FRAMES = "no_valid_frames"
    BAD_VALUE = "bad_value"
    MISSING_DIMS = "missing_dims"
    EMPTY_ANSWER = "empty_answer"
    CONFLICT = "conflict"
    INVENTED = "invented"
    """Text after a control token: the judge was inventing its environment, and it was cut."""
    IGNORED_CALL = "ignored_call"
    """A call beside a complete answer: the answer ended the run."""
    REPAIRED = "repaired"
    """Broken JSON that could be read all the same."""
    BAD_CONFIDENCE = "bad_confidence"


@dataclass(frozen=True, slots=True)
class Problem:
    """A named problem and one sentence about it."""

    kind: ProblemKind
    detail: str


@dataclass(frozen=True, slots=True)
class FrameSelection:
    """What a reply's calls ask for, in the protocol's own numbers."""

    indices: tuple[int, ...]
    """Valid, without duplicates, cut to the protocol's limit."""
    dropped: tuple[int | float | str | None, ...] = ()
    """What was no index of this protocol, as written."""
    truncated: bool = False
    """More than the protocol's limit was asked for."""
    asked: int = 0
    """How many entries the calls held."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The best reading of one completion. Never a yes or no: a reading, and the problems met on the way."""

    text: str
    """The reply as it is kept in the history (cut where the judge began to invent its environment)."""
    snapshot: str = ""
    think: str = ""
    wants: FrameSelection | None = None
    verdict: Verdict | None = None
    """The labels of the final answer, else of the recommended one; partial labels are kept, never filled in."""
    confidence: int | None = None
    final: bool = False
    """The verdict stood in a final answer."""
    problems: tuple[Problem, ...] = ()

    @property
    def kind(self) -> Literal["answer", "tool", "recommend", "invalid"]:
        """What the engine acts on."""
        if self.final and self.verdict is not None and self.verdict.whole:
            return "answer"
        if self.wants is not None and self.wants.indices:
            return "tool"
        if not self.final and self.verdict is not None and self.verdict.whole:
            return "recommend"
        return "invalid"


ProtocolName = Literal["concat", "paired"]
"""The two published prompt protocols; each checkpoint was trained for one."""


# -- settings -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person chose for a run; None is the protocol's own default."""

    protocol: Literal["auto", "concat", "paired"] = "auto"
    preset: Literal["card", "clean"] = "card"
    window: int | Literal["all"] | None = None
    """Rounds of tool frames that stay in view; "all" keeps every frame."""
    max_turns: int | None = None
    frames_per_call: int | None = None
    max_new_tokens: int = 2048
    temperature: float = 0.0
    seed: int = 0
    opening: Literal["training", "card"] = "training"
    """`concat` only: how the first frames are chosen and packed."""
    total: int = 96
    """`concat` only: N, the length of its one list of frames."""
    fit: Literal["squash", "letterbox"] = "squash"
    """`paired` only: how a frame becomes 448 x 448."""
