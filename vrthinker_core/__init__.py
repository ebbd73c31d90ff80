"""VR-Thinker: compare two generated videos, and see why. The public names."""

from vrthinker_core.backends import OpenedBackend, ScriptedBackend, open_backend
from vrthinker_core.batch import judge_many
from vrthinker_core.errors import BadInput, CheckpointError, JudgeError, TraceError, VideoError, VrThinkerError
from vrthinker_core.judge import judge
from vrthinker_core.types import Dimension, Preference, Settings, Side, Verdict, VideoPair
from vrthinker_core.types.events import Event, Finished, FramesShown, Started, StopReason, TextArrived, Trace, Turn, TurnEnded

__all__ = [
    "BadInput",
    "CheckpointError",
    "Dimension",
    "Event",
    "Finished",
    "FramesShown",
    "JudgeError",
    "OpenedBackend",
    "Preference",
    "ScriptedBackend",
    "Settings",
    "Side",
    "Started",
    "StopReason",
    "TextArrived",
    "Trace",
    "TraceError",
    "Turn",
    "TurnEnded",
    "Verdict",
    "VideoError",
    "VideoPair",
    "VrThinkerError",
    "judge",
    "judge_many",
    "open_backend",
]
