"""Decoding of hostile video files: each slot's frame, decoded at most once."""

from vrthinker_core.types.frames import FramePlan
from vrthinker_core.video.clip import Clip
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.process import DecoderPool

__all__ = ["Clip", "DecoderPool", "FramePlan", "Limits"]
