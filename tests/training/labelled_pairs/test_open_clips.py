"""Frames of video files while training: those of the product, from a few open pairs at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.training.labelled_pairs.support import PAIRED, write_table
from vrthinker_core import ScriptedBackend
from vrthinker_core.errors import VideoError
from vrthinker_core.judge import judge
from vrthinker_core.results.datasets import read_dataset
from vrthinker_core.training.labelled_pairs import open_clips
from vrthinker_core.training.labelled_pairs.open_clips import ClipFrames, OpenClips
from vrthinker_core.training.labelled_pairs.video_pairs import VideoPairSet
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import FrameRef, Settings, Side, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Message
from vrthinker_core.video import Clip
from vrthinker_core.video.clip_pair import frame_source

REFS = (FrameRef(16, Side.SECOND), FrameRef(0, Side.FIRST), FrameRef(16, Side.FIRST))


def look(*indices: int) -> str:
    call = f'{{"name": "select_frames", "arguments": {{"frame_indices": {list(indices)}}}}}'
    return f"<Snapshot>a</Snapshot><Think>b</Think><tool_call>{call}</tool_call>"


REPLIES = (
    look(3, 90),
    "<Snapshot>a</Snapshot><Think>b</Think><Answer>TA=1, VQ=0, MQ=2, OA=1</Answer>",
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    return write_table(
        folder, [(f"{n}a.mp4", f"{n}b.mp4", f"Prompt {n}", "1", "0", "2", "1") for n in range(4)]
    )


def running(pids: set[int]) -> set[int]:
    return {pid for pid in pids if os.path.exists(f"/proc/{pid}")}  # noqa: PTH110


def test_a_rollout_over_files_is_sent_what_the_product_sends(table: Path) -> None:
    rows = read_dataset("csv", table)
    sent: list[list[tuple[Message, ...]]] = []
    for _ in range(2):
        turns: list[tuple[Message, ...]] = []
        sent.append(turns)

        def reply(messages: object, turns: list[tuple[Message, ...]] = turns) -> str:
            turns.append(tuple(messages))  # type: ignore[arg-type]
            return REPLIES[len(turns) - 1]

        backend = ScriptedBackend(reply, protocol="paired")
        if len(sent) == 1:
            events = list(judge(rows[0].videos, backend, Settings()))
        else:
            with VideoPairSet(rows, PAIRED) as pairs:
                (rollout,) = play([pairs.pair(0)], backend, Settings())
    assert sent[0] == sent[1]
    assert [[frame.rgb for message in turn for frame in message.frames] for turn in sent[0]] == [
        [frame.rgb for message in turn for frame in message.frames] for turn in sent[1]
    ]
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
            assert [frame.rgb for frame in source(REFS)] == seen, (
                "the same frames once it is opened again"
            )
            assert clips.open_pairs <= 2
        assert len(pids) > 4
        assert len(running(pids)) <= 4
    assert len({tuple(seen) for seen in pictures}) == 4
    until(lambda: not running(pids))


def test_a_video_that_cannot_be_read_is_named_and_the_others_go_on(
    table: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes((table.parent / "0a.mp4").read_bytes()[:300])
    with OpenClips(PAIRED["paired"]) as clips:
        with pytest.raises(VideoError, match=r"Video 2: broken\.mp4"):
            clips.frames(VideoPair("p", table.parent / "0a.mp4", broken), REFS)
        assert clips.open_pairs == 0
        assert (
            len(
                clips.frames(VideoPair("p", table.parent / "0a.mp4", table.parent / "0b.mp4"), REFS)
            )
            == 3
        )
