"""Frames of video files while training: those of the product, from a few open pairs at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.drawn_rollouts import look
from tests.support.waiting import until
from tests.training.labelled_pairs.support import PAIRED, SAID, numbered_rows, write_table
from vrthinker_core import ScriptedBackend
from vrthinker_core.errors import VideoError
from vrthinker_core.judge import judge
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.training import pair_set as open_clips
from vrthinker_core.training.pair_set import ClipFrames, OpenClips, VideoPairSet
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import FrameRef, Settings, Side, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Message
from vrthinker_core.video import Clip
from vrthinker_core.video.clip_pair import frame_source

REFS = (FrameRef(16, Side.SECOND), FrameRef(0, Side.FIRST), FrameRef(16, Side.FIRST))


REPLIES = (look(3, 90), SAID)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("pairs"), numbered_rows("A", "B", "C", "D"))


def running(pids: set[int]) -> set[int]:
    return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}  # noqa: PTH110


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


def test_many_pairs_in_turn_leave_no_process_behind(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_video_that_cannot_be_read_is_named_and_the_others_go_on(
    table: Path, tmp_path: Path
) -> None:
    broken, first = tmp_path / "broken.mp4", table.parent / "0a.mp4"
    broken.write_bytes(first.read_bytes()[:300])
    with OpenClips(PAIRED["paired"]) as clips:
        with pytest.raises(VideoError, match=r"Video 2: broken\.mp4"):
            clips.frames(VideoPair("p", first, broken), REFS)
        assert clips.open_pairs == 0
        assert len(clips.frames(VideoPair("p", first, table.parent / "0b.mp4"), REFS)) == 3
