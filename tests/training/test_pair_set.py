"""Pair sets: which pair a number means, in which order training meets them, and frames of files from a few open pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.nano import UNSEEN
from tests.support.drawn_rollouts import look
from tests.support.waiting import until
from tests.training.tables import PAIRED, SAID, numbered_rows, write_table
from vrthinker_core import ScriptedBackend
from vrthinker_core.drawn.world import TRAINING_SEEDS
from vrthinker_core.errors import VideoError
from vrthinker_core.protocols.factory import frame_plans
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.runner import judge
from vrthinker_core.training import pair_set as open_clips
from vrthinker_core.training.data import open_pairs
from vrthinker_core.training.pair_set import (
    ClipFrames,
    DrawnPairSet,
    OpenClips,
    VideoPairSet,
    in_training_order,
)
from vrthinker_core.training.rollouts import LabelledPair, play
from vrthinker_core.types import FrameRef, Settings, Side, Verdict, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Message
from vrthinker_core.video import Clip
from vrthinker_core.video.clip import frame_source


class Numbered:
    """Pairs that are told apart by their prompts."""

    def __init__(self, size: int) -> None:
        self.size = size

    def pair(self, number: int) -> LabelledPair:
        return LabelledPair(str(number), Verdict(), lambda refs: (), number)


def order(seed: int, size: int, start: int, count: int) -> list[int]:
    shuffled = in_training_order(Numbered(size), seed)
    return [int(shuffled.pair(number).prompt) for number in range(start, start + count)]


def test_pairs_take_the_protocols_in_turn_and_are_judged_in_them() -> None:
    pairs = open_pairs("drawn:5", frame_plans(Settings(), ("paired", "concat")))
    judge = ScriptedBackend(["<Answer>TA=0</Answer>"], protocol="paired")
    played = list(play([pairs.pair(number) for number in range(4)], judge, Settings(max_turns=1)))
    assert [rollout.run.started.dialect for rollout in played] == ["paired", "concat"] * 2
    for rollout in played:
        frames = rollout.run.turns[0].frames
        assert len({frame.index for frame in frames}) == 4, "four frames of each clip, all over it"
        assert max(frame.index for frame in frames) > 80


def test_no_judge_is_trained_with_what_it_is_measured_with() -> None:
    assert TRAINING_SEEDS <= UNSEEN
    seeds = {DrawnPairSet(seed).drawn(number).seed for seed in range(3) for number in range(30)}
    assert len(seeds) == 90
    assert max(seeds) < UNSEEN
    with pytest.raises(IndexError):
        DrawnPairSet(0).pair(-1)


def test_every_epoch_has_each_pair_once_in_an_order_of_its_own() -> None:
    epochs = [order(1, 12, start, 12) for start in (0, 12, 24)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert order(1, 12, 7, 20) == [*epochs[0], *epochs[1], *epochs[2]][7:27]
    assert order(2, 12, 0, 12) != epochs[0]
    shuffled = in_training_order(Numbered(3), 1)
    assert len({shuffled.pair(number).seed for number in range(9)}) == 9, "it is answered anew"
    drawn = DrawnPairSet(5)
    assert in_training_order(drawn, 9) is drawn, "pairs without an end keep their order"


REFS = (FrameRef(16, Side.SECOND), FrameRef(0, Side.FIRST), FrameRef(16, Side.FIRST))


REPLIES = (look(3, 90), SAID)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("pairs"), numbered_rows("A", "B", "C", "D"))


def running(pids: set[int]) -> set[int]:
    return set(filter(psutil.pid_exists, pids))


def test_a_rollout_over_files_is_sent_what_the_product_sends(table: Path) -> None:
    (row, *_), sent = read_dataset("csv", table), list[tuple[Message, ...]]()

    def reply(messages: Sequence[Message]) -> str:
        sent.append(tuple(messages))
        return REPLIES[(len(sent) - 1) % 2]

    def pixels(turns: list[tuple[Message, ...]]) -> list[list[bytes]]:
        return [[frame.rgb for message in turn for frame in message.frames] for turn in turns]

    backend = ScriptedBackend(reply, protocol="paired")
    events = list(judge(row.videos, backend, Settings()))
    with VideoPairSet([row], PAIRED) as pairs:
        (rollout,) = play([pairs.pair(0)], backend, Settings())
    assert len(sent) == 4
    assert sent[:2] == sent[2:]
    assert pixels(sent[:2]) == pixels(sent[2:])
    assert rollout.correct
    assert rollout.run.started.clips == events[0].clips  # type: ignore[union-attr]


def test_many_pairs_leave_no_process_behind(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos = [row.videos for row in read_dataset("csv", table)]
    pids: set[int] = set()

    def noted(clips: tuple[Clip, Clip]) -> FrameSource:
        pids.update(clip.pid for clip in clips)
        return frame_source(clips)

    monkeypatch.setattr(open_clips, "frame_source", noted)
    with OpenClips(PAIRED["paired"], most=2) as clips:
        sources = [ClipFrames(each, clips) for each in videos]
        assert clips.open_pairs == 0, "nothing is opened before a frame is asked for"
        pictures = [[frame.rgb for frame in source(REFS)] for source in sources]
        for source, seen in zip(sources, pictures, strict=True):
            assert [frame.rgb for frame in source(REFS)] == seen, "also when opened again"
            assert clips.open_pairs <= 2
        assert len(pids) > 4
        assert len(running(pids)) <= 4
    assert len({tuple(seen) for seen in pictures}) == 4
    until(lambda: not running(pids))


def test_an_unreadable_video_is_named_and_the_others_go_on(table: Path, tmp_path: Path) -> None:
    broken, first = tmp_path / "broken.mp4", table.parent / "0a.mp4"
    broken.write_bytes(first.read_bytes()[:300])
    with OpenClips(PAIRED["paired"]) as clips:
        with pytest.raises(VideoError, match=r"Video 2: broken\.mp4"):
            clips.frames(VideoPair("p", first, broken), REFS)
        assert clips.open_pairs == 0
        assert len(clips.frames(VideoPair("p", first, table.parent / "0b.mp4"), REFS)) == 3
