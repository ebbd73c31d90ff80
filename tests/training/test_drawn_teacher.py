"""The scripted teacher: what it writes is read back as it was meant, rests on frames that were shown, and is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint_files import read_marker
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.drawn.teacher import FORCED_EVERY, play_teacher, write_lesson
from vrthinker_core.drawn.world import FULL, SIMPLE, DrawnPair, World, draw_pair
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.types import Dimension, ProtocolName, Settings

PROTOCOLS: tuple[ProtocolName, ...] = ("paired", "concat")
VIEWS = replace(FULL, no_thing=1.0)
PAIRS = 20


def write_replies(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    return tuple(text for text, _, _ in play_teacher(pair, make_protocol(Settings(), protocol)))


def rollout(pair: DrawnPair, protocol: ProtocolName) -> Rollout:
    backend = ScriptedBackend(write_replies(pair, protocol), protocol, follows_instructions=False)
    return next(play([LabelledPair(pair.prompt, pair.verdict, frames)], backend, Settings()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("world", "least"), [(SIMPLE, 1.0), (FULL, 0.9)])
def test_it_keeps_the_format_and_is_right(
    protocol: ProtocolName, world: World, least: float
) -> None:
    rollouts = [rollout(draw_pair(seed, world), protocol) for seed in range(PAIRS)]
    for each in rollouts:
        assert not any(turn.reply.problems for turn in each.run.turns)
        assert not each.run.finished.provisional
    assert sum(each.correct for each in rollouts) >= least * PAIRS
    asked = [sum(len(turn.frames) for turn in each.run.turns[1:]) / 2 for each in rollouts]
    assert sum(asked) / PAIRS < 5  # frames of each video, besides the first four


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_label_that_decides_names_frames_that_were_shown(protocol: ProtocolName) -> None:
    named = 0
    for seed in range(PAIRS):
        run = rollout(draw_pair(seed, FULL), protocol).run
        shown = {int(frame.number) for turn in run.turns for frame in turn.frames}
        last = run.turns[-1].reply
        for dimension in (Dimension.TA, Dimension.VQ, Dimension.MQ):
            sentence = find_sentence(dimension, [last.think])
            assert sentence.startswith(dimension.value)
            numbers = frame_numbers(sentence, [str(number) for number in range(129)])
            assert shown.issuperset(numbers)
            assert numbers or not dict(last.verdict)[dimension]
            named += bool(numbers)
    assert named > PAIRS / 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_some_lessons_answer_early_as_a_judge_does_on_its_last_turn(protocol: ProtocolName) -> None:
    trigger, instead = read_marker(NANO, "nano").forced[protocol]
    early = 0
    for seed in range(0, 8 * FORCED_EVERY, FORCED_EVERY // 2):
        pair = draw_pair(seed, FULL)
        whole, lesson = write_replies(pair, protocol), write_lesson(pair, protocol)
        if lesson == whole:
            continue
        assert seed % FORCED_EVERY == 0
        early += 1
        asked = whole[len(lesson) - 1]
        assert lesson[:-1] == whole[: len(lesson) - 1]
        assert lesson[-1].startswith(asked.partition(trigger)[0] + instead)
        script = ScriptedBackend(lesson, protocol, follows_instructions=False)
        run = next(play([LabelledPair(pair.prompt, pair.verdict, frames)], script, Settings())).run
        assert len(run.turns) == len(lesson)
        assert not any(turn.reply.problems for turn in run.turns)
    assert early >= 4


LESSONS: tuple[tuple[World, int, ProtocolName], ...] = (
    (SIMPLE, 4, "paired"),
    (FULL, 5, "paired"),
    (FULL, 7, "paired"),
    (VIEWS, 1, "paired"),
    (FULL, 6, "concat"),
    (VIEWS, 5, "concat"),
)


def test_lessons_are_written_as_in_the_golden_file() -> None:
    pairs = [(draw_pair(seed, world), protocol) for world, seed, protocol in LESSONS]
    lessons = [[pair.prompt, *write_replies(pair, protocol)] for pair, protocol in pairs]
    golden = Path(__file__).with_name("lessons.txt").read_text("utf-8")
    assert "\n\n==\n\n".join("\n\n".join(each) for each in lessons) + "\n" == golden
