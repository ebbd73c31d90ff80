"""The scripted teacher writes the light of a view as the judge that it teaches sees it, so that every word stands in a frame."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from vrthinker_core.backends.built_in import NANO
from vrthinker_core.training.base.conversations import describe, dialect_of
from vrthinker_core.training.base.frames.coded_frames import PairCodes
from vrthinker_core.training.base.frames.light_reader import light_reader
from vrthinker_core.training.base.model.base_checkpoint import write_checkpoint
from vrthinker_core.training.base.model.model_shape import HIDDEN, model_config, new_model
from vrthinker_core.training.base.model.vocabulary import control_ids
from vrthinker_core.training.base.seen_lessons import lessons_for
from vrthinker_core.training.drawn_teacher import phrases
from vrthinker_core.training.drawn_teacher.replies import write_lesson
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.training.drawn_world.scenes import WorldOptions, draw_pair
from vrthinker_core.training.frame_facts.frame_code import Places, basis
from vrthinker_core.training.frame_facts.seen_frames import view_light
from vrthinker_core.types import Side

VIEWS = WorldOptions(second=True, no_thing=1.0)
THINGS = WorldOptions(second=True, no_thing=0.0)


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"):
        yield


def test_what_is_written_of_a_frame_is_what_its_features_say() -> None:
    """Even where they are far off: what is written is never better known from the frame before than from the frame itself."""
    dialect, directions, off = dialect_of("paired"), basis(HIDDEN), []
    for seed in range(6):
        pair = draw_pair(seed, VIEWS)
        read = light_reader(PairCodes(pair, directions, np.random.default_rng(seed)).features, directions)
        text = describe(pair, dialect, read, np.random.default_rng(seed))[0].text
        indices = [dialect.grid.index(ref.slot, FRAMES) for ref in dialect.opening_refs if ref.side is Side.FIRST]
        lights = read([(Side.FIRST, index) for index in indices])
        assert _noted(text)[: len(lights)] == [phrases.where(light) for light in lights]
        off += [_distance(light, view_light(pair.first, index)) for light, index in zip(lights, indices, strict=True)]
    assert np.mean(off) > 0.02


def test_a_lesson_for_the_built_in_judge_is_what_its_tower_sees() -> None:
    views, things = (draw_pair(3, world) for world in (VIEWS, THINGS))
    write = lessons_for(NANO)
    assert _noted(write(views, "paired")[0]) != _noted(write_lesson(views, "paired")[0])
    assert _without_places(write(views, "paired")) == _without_places(write_lesson(views, "paired"))
    assert write(things, "paired") == write_lesson(things, "paired")


def test_for_another_model_the_light_is_written_as_it_is(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(NANO / "tokenizer.json"))
    config = model_config(tokenizer.get_vocab_size(), control_ids(tokenizer))
    config.vision_config.hidden_size = 64
    write_checkpoint(new_model(config, 0), tokenizer, tmp_path)
    pair = draw_pair(3, VIEWS)
    assert lessons_for(tmp_path)(pair, "concat") == write_lesson(pair, "concat")


def _noted(text: str) -> list[str]:
    """What is written of the light of each frame."""
    return re.findall(r" at \d+%,\d+% and at \d+%,\d+%", text)


def _without_places(texts: tuple[str, ...]) -> list[str]:
    return [re.sub(r"\d+%", "%", text) for text in texts]


def _distance(one: Places, other: Places) -> float:
    return float(np.abs(np.array(one) - np.array(other)).max())
