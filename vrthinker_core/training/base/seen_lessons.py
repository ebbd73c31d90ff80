"""The scripted teacher's runs for the small model: the light of a view is written as that model's own tower sees it."""

from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.frames.light_reader import light_reader
from vrthinker_core.training.base.frames.seen_features import PairFeatures
from vrthinker_core.training.base.model.base_checkpoint import open_checkpoint
from vrthinker_core.training.base.model.model_shape import HIDDEN
from vrthinker_core.training.drawn_teacher.replies import write_lesson
from vrthinker_core.training.drawn_world.scenes import DrawnPair
from vrthinker_core.training.frame_facts.frame_code import basis
from vrthinker_core.training.teacher import WriteReplies
from vrthinker_core.types import ProtocolName


def lessons_for(checkpoint: Path) -> WriteReplies:
    """The lessons for this judge; for one that is not of the built-in judge's shape the light is written as it is."""
    try:
        visual = open_checkpoint(checkpoint)[0].model.visual
    except BadInput:
        return write_lesson
    directions = basis(HIDDEN)

    def write(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
        return write_lesson(pair, protocol, light_reader(PairFeatures(pair, visual).features, directions))

    return write
