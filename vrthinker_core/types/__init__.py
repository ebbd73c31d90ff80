"""The nouns of the package."""

from vrthinker_core.types.comparison import Dimension, Preference, Side, Verdict, VideoPair, Vote
from vrthinker_core.types.events import Run, StopReason, Trace, Turn
from vrthinker_core.types.frames import ClipInfo, Frame, FrameRef, Thumbnail
from vrthinker_core.types.messages import FrameSelection, Problem, ProblemKind, Reply
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
