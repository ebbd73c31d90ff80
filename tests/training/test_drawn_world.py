"""The drawn world: labels follow from scenes, faults stay in windows; its teacher is right; its files are whole."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import av
import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.support.blank_frames import frames
from vrthinker_core.backends.checkpoint_files import read_marker
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.drawn import video_files
from vrthinker_core.drawn.notes import CLEAR, FACT_KINDS, SceneFacts
from vrthinker_core.drawn.renderer import SceneRenderer
from vrthinker_core.drawn.solids import Pixels
from vrthinker_core.drawn.teacher import FORCED_EVERY, play_teacher, write_lesson
from vrthinker_core.drawn.video_files import write_pairs
from vrthinker_core.drawn.world import (
    FRAMES,
    MOTION_FAULTS,
    OPENING_FRAMES,
    PICTURE_FAULTS,
    DrawnPair,
    Fault,
    Scene,
    draw_pair,
    draw_scene,
    pair_of,
)
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.types import Dimension, Preference, ProtocolName, Settings, Side

SIZE = 112


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(float) - other).mean())


CUBE = draw_scene(np.random.default_rng(1), SceneFacts("red", "cube", "right", "sand"))


@cache
def drawn_pairs() -> list[DrawnPair]:
    return [draw_pair(seed) for seed in range(300)]


def flaws(pair: DrawnPair, scene: Scene) -> tuple[int, bool, bool]:
    """(number of wrong facts, a frame is damaged, the motion is damaged) as the 128 frames show them."""
    wrong = [getattr(pair.wanted, kind) != getattr(scene.facts, kind) for kind in FACT_KINDS]
    even = replace(scene, motion_fault=None)
    damaged = any(scene.picture_state(index) != CLEAR for index in range(FRAMES))
    odd = any(scene.position(index) != even.position(index) for index in range(FRAMES))
    return sum(wrong), damaged, odd


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**63))
def test_labels_agree_with_what_the_frames_show(seed: int) -> None:
    pair = draw_pair(seed)
    both = zip(*(flaws(pair, scene) for scene in pair.scenes.values()), strict=True)
    lead = [np.sign(second - first) for first, second in both]
    overall = np.sign(1.5 * lead[0] + lead[1] + lead[2])
    expected = [{0: 0, 1: 1, -1: 2}[int(sign)] for sign in (*lead, overall)]
    assert [pair.verdict.labels[name] for name in ("TA", "VQ", "MQ", "OA")] == expected


def test_every_label_both_kinds_of_tie_and_every_wrong_fact_are_drawn() -> None:
    pairs = drawn_pairs()
    for name in ("TA", "VQ", "MQ"):
        counts_of = np.bincount([pair.verdict.labels[name] for pair in pairs], minlength=3)
        assert counts_of.min() > 0.2 * len(pairs)
    ties = [pair for pair in pairs if pair.verdict.VQ is Preference.TIE]
    assert 0.1 < np.mean([pair.scenes[Side.FIRST].picture_fault is not None for pair in ties]) < 0.4
    facts = [(pair.wanted, scene.facts) for pair in pairs for scene in pair.scenes.values()]
    assert all(wanted.ground == shown.ground for wanted, shown in facts)
    assert {count for pair in pairs for count in pair.wrong} == {0, 1}
    for kind in FACT_KINDS:
        assert any(getattr(wanted, kind) != getattr(shown, kind) for wanted, shown in facts)


GOLDEN = Path(__file__).with_name("scenes.txt")


def test_scenes_look_as_in_the_golden_file() -> None:
    """Examples, benchmarks and folders that go on rely on it; another OpenCV is a shade off."""
    golden = (line.rsplit(" ", 1) for line in GOLDEN.read_text("utf-8").splitlines())
    drawn = ((pair, *scene) for pair in drawn_pairs()[:12] for scene in pair.scenes.items())
    for (name, levels), (pair, side, scene) in zip(golden, drawn, strict=True):
        labels = ", ".join(f"{each}={label}" for each, label in pair.verdict.labels.items())
        assert name == f"{pair.seed}, {labels}, {pair.prompt} Video {side}:"
        fault = scene.picture_fault or scene.motion_fault
        index = fault.window[:3][-1] if fault else FRAMES // 2
        frame = SceneRenderer(scene, SIZE).frame(index)
        small = cv2.resize(frame, (4, 4), interpolation=cv2.INTER_AREA)
        wanted = np.frombuffer(bytes.fromhex(levels), np.uint8).reshape(small.shape)
        assert np.abs(small.astype(int) - wanted).max() <= 4, name


def test_half_of_the_faults_lie_between_the_opening_frames() -> None:
    scenes = [scene for pair in drawn_pairs() for scene in pair.scenes.values()]
    drawn = [fault for scene in scenes for fault in (scene.picture_fault, scene.motion_fault)]
    faults = [fault for fault in drawn if fault]
    hidden = [each for each in faults if not any(index in each.window for index in OPENING_FRAMES)]
    assert 0.4 < len(hidden) / len(faults) < 0.6
    assert all(0 <= each.window.start < each.window.stop <= FRAMES for each in faults)
    for fault in hidden:  # A look at every 16th frame shows a hint of each, between opening frames
        shown = fault.window[4 if fault.kind == "frozen" else 0 :]
        assert any(index in shown for index in range(32, 112, 32))


@pytest.mark.parametrize("kind", PICTURE_FAULTS)
def test_a_picture_fault_changes_only_the_frames_in_its_window(kind: str) -> None:
    fault = Fault(kind, range(50, 60), 0.1, 8)
    clean = SceneRenderer(CUBE, SIZE)
    faulty = replace(CUBE, picture_fault=fault)
    damaged = SceneRenderer(faulty, SIZE)
    states = {"dark", "bright"} if kind == "flicker" else {kind}
    for index in (0, 49, 50, 55, 59, 60, 127):
        changed = difference(clean.frame(index), damaged.frame(index))
        assert (changed > 2, changed > 0) == ((index in fault.window),) * 2
        assert faulty.picture_state(index) in (states if index in fault.window else {CLEAR})


@pytest.mark.parametrize("kind", MOTION_FAULTS)
def test_a_motion_fault_changes_only_the_frames_in_its_window(kind: str) -> None:
    damaged = replace(CUBE, motion_fault=Fault(kind, range(50, 60), 0.3, 8))
    changed = [n for n in range(FRAMES) if damaged.position(n) != CUBE.position(n)]
    assert changed == list(range(51 if kind == "frozen" else 50, 60))
    frames = [SceneRenderer(damaged, SIZE).frame(index) for index in (50, 59, 60)]
    assert np.array_equal(frames[0], frames[1]) == (kind == "frozen"), "nor does it rotate"
    assert not np.array_equal(frames[1], frames[2])


def test_a_frame_does_not_depend_on_the_frames_drawn_before_it() -> None:
    for pair in drawn_pairs()[:4]:
        for scene in pair.scenes.values():
            forwards, backwards = (SceneRenderer(scene, SIZE, 2) for _ in range(2))
            frames = {index: forwards.frame(index).tobytes() for index in (0, 64, 127)}
            assert {index: backwards.frame(index).tobytes() for index in (127, 64, 0)} == frames


PROTOCOLS: tuple[ProtocolName, ...] = ("paired", "concat")
PAIRS = 20


def write_replies(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    return tuple(text for text, _ in play_teacher(pair, make_protocol(Settings(), protocol)))


def rollout(pair: DrawnPair, protocol: ProtocolName, replies: Sequence[str]) -> Rollout:
    backend = ScriptedBackend(replies, protocol, follows_instructions=False)
    return next(play([LabelledPair(pair.prompt, pair.verdict, frames)], backend, Settings()))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_keeps_the_format_and_is_right(protocol: ProtocolName) -> None:
    pairs = drawn_pairs()[:PAIRS]
    rollouts = [rollout(pair, protocol, write_replies(pair, protocol)) for pair in pairs]
    for each in rollouts:
        assert not any(turn.reply.problems for turn in each.run.turns)
        assert not each.run.finished.provisional
        shown = {int(frame.number) for turn in each.run.turns for frame in turn.frames}
        last = each.run.turns[-1].reply
        for name in (Dimension.TA, Dimension.VQ, Dimension.MQ):  # One that decides names frames
            sentence = find_sentence(name, [last.think])
            assert sentence.startswith(name.value)
            numbers = frame_numbers(sentence, [str(number) for number in range(129)])
            assert shown.issuperset(numbers)
            assert numbers or not dict(last.verdict)[name]
    assert all(each.correct for each in rollouts)
    asked = [sum(len(turn.frames) for turn in each.run.turns[1:]) / 2 for each in rollouts]
    assert sum(asked) / PAIRS < 5  # frames of each video, besides the first four


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_some_lessons_answer_early_as_a_judge_does_on_its_last_turn(protocol: ProtocolName) -> None:
    trigger, instead = read_marker(NANO, "nano").forced[protocol]
    early = 0
    for seed in range(0, 8 * FORCED_EVERY, FORCED_EVERY // 2):
        pair = draw_pair(seed)
        whole, lesson = write_replies(pair, protocol), write_lesson(pair, protocol)
        if lesson == whole:
            continue
        assert seed % FORCED_EVERY == 0
        early += 1
        asked = whole[len(lesson) - 1]
        assert lesson[:-1] == whole[: len(lesson) - 1]
        assert lesson[-1].startswith(asked.partition(trigger)[0] + instead)
        run = rollout(pair, protocol, lesson).run
        assert len(run.turns) == len(lesson)
        assert not any(turn.reply.problems for turn in run.turns)
    assert early >= 4


LESSONS: tuple[tuple[int, ProtocolName], ...] = ((4, "paired"), (13, "paired"), (5, "concat"))


def test_lessons_are_written_as_in_the_golden_file() -> None:
    pairs = [(draw_pair(seed), protocol) for seed, protocol in LESSONS]
    lessons = [[pair.prompt, *write_replies(pair, protocol)] for pair, protocol in pairs]
    golden = Path(__file__).with_name("lessons.txt").read_text("utf-8")
    assert "\n\n==\n\n".join("\n\n".join(each) for each in lessons) + "\n" == golden


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("drawn") / "pairs"
    write_pairs(1, 5, out, SIZE)
    return out


def test_the_table_holds_prompts_and_true_labels(folder: Path) -> None:
    pair, names = pair_of(5, 0), ["pair_0000_a.mp4", "pair_0000_b.mp4"]
    labels = [str(int(pair.verdict.labels[name])) for name in ("TA", "VQ", "MQ", "OA")]
    head, row = csv.reader((folder / "pairs.csv").read_text("utf-8").splitlines())
    assert head == ["video1", "video2", "prompt", "TA", "VQ", "MQ", "OA"]
    assert row == [*names, pair.prompt, *labels]
    assert {path.name for path in folder.iterdir()} == {*names, "pairs.csv"}


def test_a_video_shows_its_scene(folder: Path) -> None:
    with av.open(str(folder / "pair_0000_b.mp4")) as video:
        frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    assert [frame.shape for frame in frames] == [(SIZE, SIZE, 3)] * FRAMES
    renderer = SceneRenderer(pair_of(5, 0).scenes[Side.SECOND], SIZE, supersample=4)
    assert max(difference(frames[index], renderer.frame(index)) for index in (0, 50, 127)) < 10


def test_a_second_run_keeps_the_videos_that_are_there_and_writes_the_others(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(shutil.copytree(folder, tmp_path / "pairs"))
    lost, write, progress = out / "pair_0000_a.mp4", Mock(), list[tuple[int, int]]()
    lost.unlink()
    monkeypatch.setattr(video_files, "write_video", write)
    write_pairs(1, 5, out, SIZE, progress=lambda *each: progress.append(each))
    assert progress == [(1, 2), (2, 2)]
    assert [call.args[1] for call in write.call_args_list] == [lost]


def test_odd_numbers_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "new"
    for count, seed, size, said in (
        (0, 0, SIZE, "at least one pair"),
        (1, -1, SIZE, "0 or larger"),
        *((1, 0, size, "even number of pixels from 112 to 1080") for size in (225, 110, 1082)),
    ):
        with pytest.raises(BadInput, match=said):
            write_pairs(count, seed, out, size)
    assert not out.exists()


def test_folders_of_other_files_and_of_other_runs_are_refused(folder: Path, tmp_path: Path) -> None:
    holiday, table = tmp_path / "films" / "holiday.mp4", tmp_path / "one" / "pairs.csv"
    older = Path(shutil.copytree(folder, tmp_path / "older"))
    video = older / "pair_0000_a.mp4"
    video.write_bytes(video.read_bytes().replace(b"drawn world 506819e5", b"drawn world 12345678"))
    for other in (holiday, table):
        other.parent.mkdir()
        other.write_text("other")
    for seed, out, size, said in (
        (0, holiday.parent, SIZE, r"holiday\.mp4"),
        (0, table.parent, SIZE, r"pairs\.csv"),
        (0, holiday, SIZE, "cannot be written"),
        (6, folder, SIZE, "another seed, size or version"),
        (5, folder, 2 * SIZE, "another seed, size or version"),
        (5, older, SIZE, "another seed, size or version"),
    ):
        with pytest.raises(BadInput, match=said):
            write_pairs(1, seed, out, size)
    assert (holiday.read_text(), table.read_text()) == ("other", "other")
