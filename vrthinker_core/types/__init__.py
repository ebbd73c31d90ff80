"""The nouns of the package."""

from vrthinker_core.types.events import Run, StopReason, Trace, Turn
from vrthinker_core.types.frames import ClipInfo, Frame, FrameRef, Side, Thumbnail, VideoPair
from vrthinker_core.types.messages import (
    Dimension,
    FrameSelection,
    Preference,
    Problem,
    ProblemKind,
    Reply,
    Verdict,
    Vote,
)
from vrthinker_core.types.settings import ProtocolName, Settings

__all__ = [
    "ClipInfo",
    "Dimension",
    "Frame",
    "FrameRef",
    "FrameSelection",
    "Preference",
    "Problem",
    "ProblemKind",
    "ProtocolName",
    "Reply",
    "Run",
    "Settings",
    "Side",
    "StopReason",
    "Thumbnail",
    "Trace",
    "Turn",
    "Verdict",
    "VideoPair",
    "Vote",
]
