"""The scripted teacher: what it writes is read back as it was meant, rests on frames that were shown, and is right."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.support.blank_frames import frames
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint_files import read_marker
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.drawn.moving_scene import SceneRenderer
from vrthinker_core.drawn.phrases import MAY_HIDE, MOTION_FLAWS
from vrthinker_core.drawn.teacher import (
    FORCED_EVERY,
    SeenFrame,
    light_of,
    play_teacher,
    view_light,
    write_lesson,
)
from vrthinker_core.drawn.world import FULL, SIMPLE, DrawnPair, World, draw_pair
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.types import Dimension, ProtocolName, Settings, Side

PROTOCOLS: tuple[ProtocolName, ...] = ("paired", "concat")
VIEWS = replace(FULL, no_thing=1.0)
PAIRS = 40


def write_replies(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    return tuple(text for text, _, _ in play_teacher(pair, make_protocol(Settings(), protocol)))


def rollout(pair: DrawnPair, protocol: ProtocolName) -> Rollout:
    backend = ScriptedBackend(write_replies(pair, protocol), protocol, follows_instructions=False)
    return next(play([LabelledPair(pair.prompt, pair.verdict, frames)], backend, Settings()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("world", "least"), [(SIMPLE, 1.0), (FULL, 0.9)])
def test_played_through_the_product_it_keeps_to_the_format_and_is_right(
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
            if dict(last.verdict)[dimension]:
                assert numbers
                named += 1
    assert named > PAIRS / 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_prompt_is_restated_before_anything_is_said_of_the_videos(
    protocol: ProtocolName,
) -> None:
    for seed in range(PAIRS):
        pair = draw_pair(seed, FULL)
        first = write_replies(pair, protocol)[0]
        restated, _, rest = first.partition("\n")[2].partition("\n")
        assert restated.startswith("The prompt asks for ")
        assert rest.startswith("Video 1 shows")
        for thing in pair.wanted.things:
            assert thing.colour in restated
            assert thing.shape in restated


def test_as_many_facts_are_counted_wrong_as_lines_say_so() -> None:
    lacking = 0.0
    for seed in range(120):
        pair = draw_pair(seed, FULL)
        lines, _, _ = write_replies(pair, "paired")[0].partition("<Think>\n")[2].partition("TA (")
        for side, scene in pair.scenes.items():
            said = re.findall(rf"video {side} ([^;.]*)", lines)
            missing = said.count("none") / 3  # Count, colour and shape of a thing that is not there
            wrong = sum(each.endswith(", not as asked") for each in said)
            assert wrong + missing == pair.wanted.count_wrong(scene.facts), lines
            lacking += missing
    assert lacking


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_so_far_is_said_to_be_so_and_only_then(protocol: ProtocolName) -> None:
    prompts = make_protocol(Settings(), protocol)
    for seed in range(PAIRS):
        turns = play_teacher(draw_pair(seed, FULL), prompts)
        for text, wanted, evidence in turns:
            assert ("is better so far." in prompts.parse(text).think) == bool(wanted)
            assert not wanted or not all(map(evidence.settled, Side))
        for (_, _, before), (_, _, after) in pairwise(turns):
            for side in Side:
                assert before.picture_flaw(side) in (None, after.picture_flaw(side))
                assert before.motion_flaw(side) in (None, after.motion_flaw(side))


def test_it_looks_between_the_first_frames_and_closer_only_where_the_motion_was_odd() -> None:
    protocol = make_protocol(Settings(), "paired")
    turns = [play_teacher(draw_pair(seed, FULL), protocol) for seed in range(200)]
    looks = [[wanted for _, wanted, _ in each if wanted] for each in turns]
    views = [bool(each[0][2].pair.first.view) for each in turns]
    near = {False: (32, 64, 96), True: (28, 36, 60, 68, 92, 100)}  # Of a view two in each gap
    assert all(look[0] == near[view] for look, view in zip(looks, views, strict=True) if look)
    closer = [each for each, look in zip(turns, looks, strict=True) if len(look) == 2]
    assert 0 < len(closer) < len(turns) / 3
    for each in closer:
        text, wanted, evidence = each[1]
        unsettled = [side for side in Side if not evidence.settled(side)]
        odd = [frame for side in unsettled for frame in evidence.odd_frames(side)]
        assert odd
        assert MAY_HIDE not in text
        assert all(re.search(r"Video [12] moves oddly near #\d+\.", text) for _ in odd)
        assert all(min(abs(index - frame.index) for frame in odd) <= 6 for index in wanted)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_later_frame_stands_beside_the_nearest_that_were_noted_before_it(
    protocol: ProtocolName,
) -> None:
    prompts = make_protocol(Settings(), protocol)
    for seed in range(PAIRS):
        for text, _, evidence in play_teacher(draw_pair(seed, FULL), prompts):
            for side in Side:
                noted: list[SeenFrame] = []
                for frame in evidence.frames(side):
                    noted.sort(key=lambda each: each.index)
                    near = [each for each in noted if each.index < frame.index][-1:]
                    near += [each for each in noted if each.index > frame.index][:1]
                    expected = [] if frame in evidence.looks[0] else near
                    assert [(each.number, each.places) for each in frame.beside] == [
                        (each.number, each.places) for each in expected
                    ]
                    noted.append(frame)
            told, snapshot = evidence.looks[-1], prompts.parse(text).snapshot
            named = snapshot.count("(#") + snapshot.count(", #")
            assert named == sum(len(frame.beside) for frame in told)


def test_of_a_view_only_a_fault_that_moves_its_light_or_repeats_a_frame_is_noted() -> None:
    protocol, noted, unseen = make_protocol(Settings(), "paired"), 0, 0
    for seed in range(PAIRS):
        for _, _, evidence in play_teacher(draw_pair(seed, VIEWS), protocol):
            for frame in evidence.looks[-1]:
                scene = evidence.pair.scenes[frame.side]
                frames = [each.index for each in evidence.frames(frame.side)]
                near = [index for index in frames if abs(index - frame.index) <= 32]
                even = replace(scene, motion_fault=None)
                moved = [np.subtract(view_light(scene, n), view_light(even, n)) for n in near]
                off = np.abs(moved).max()
                repeated = len({view_light(scene, index) for index in near}) < len(near)
                assert frame.motion not in MOTION_FLAWS or off >= 0.05 or repeated
                noted += frame.motion in MOTION_FLAWS
                unseen += scene.motion_fault is not None and off < 0.05
    assert noted
    assert unseen


def test_a_freeze_of_a_view_is_found_however_little_moves_there() -> None:
    """Two near frames that show the same are a freeze, also where the light hardly moves otherwise."""
    protocol, found = make_protocol(Settings(), "paired"), 0
    for seed in range(120):
        pair = draw_pair(seed, VIEWS)
        evidence = play_teacher(pair, protocol)[-1][2]
        for side, scene in pair.scenes.items():
            fault = scene.motion_fault
            if fault and fault.kind == "frozen" and {60, 68} <= set(fault.window):
                assert evidence.motion_flaw(side), seed
                found += 1
    assert found > 3


def test_the_light_of_a_picture_stays_at_another_level_and_turns_with_the_picture() -> None:
    for seed in range(8):
        view = draw_pair(seed, VIEWS).first
        picture = SceneRenderer(replace(view, picture_fault=None, motion_fault=None), 112).frame(40)
        full, paler = np.array(light_of(picture)), np.array(light_of(picture // 2))
        assert full.shape == (2, 2)
        assert np.allclose(paler, light_of(picture // 2 + 60), atol=1e-4)
        assert (abs(paler - 0.5) <= abs(full - 0.5)).all()
        assert np.allclose(light_of(picture[:, ::-1]), full * (-1, 1) + (1, 0), atol=1e-4)
        assert np.allclose(light_of(picture[::-1]), full[::-1] * (1, -1) + (0, 1), atol=1e-4)


def test_it_stops_at_once_where_the_first_frames_decide() -> None:
    stops = 0
    for seed in range(1000):
        pair = draw_pair(seed)
        if all(scene.picture_fault and scene.motion_fault for scene in pair.scenes.values()):
            turns = play_teacher(pair, make_protocol(Settings(), "paired"))
            settled = all(turns[0][2].settled(side) for side in Side)
            assert (len(turns) == 1) == settled
            stops += settled
    assert stops


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
