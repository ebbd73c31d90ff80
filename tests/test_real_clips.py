"""Whole runs over real clips on either side, in both protocols, to the end. Needs the folder that VRT_CLIPS names."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from vrthinker_core import (
    ScriptedBackend,
    Settings,
    StopReason,
    TurnEnded,
    VideoPair,
    judge,
    open_backend,
)
from vrthinker_core.types import ProtocolName, Side
from vrthinker_core.types.events import Turn

FOLDER = Path(os.environ.get("VRT_CLIPS", "no clips"))
NAMES = ("pair01_unicorn_a.mp4", "mp_no_duration.webm", "dc_corrupted.mp4", "ax_sample_h264.ts")
PAIRINGS = list(zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True))  # Each clip on either side


def call(argument: str, indices: str) -> str:
    return f'<think>t</think><tool_call>{{"name": "select_frames", "arguments": {{"{argument}": [{indices}]}}}}</tool_call>'


SCRIPTS = {
    "paired": [
        call("frame_indices", "0, 127, 127, 64, 3.5, -1, 200"),
        call("frame_indices", "64, 65, 66"),
        "<Answer>TA=0, VQ=0, MQ=0, OA=0</Answer>",
    ],
    "concat": [
        call("target_frames", "1, 96, 48, 49, 97, 0"),
        call("target_frames", "2, 96"),
        "<final answer>TA=0, VQ=0, MQ=0, OA=0</final answer>",
    ],
}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="VRT_CLIPS names no folder of clips")


def check_told_is_sent(turn: Turn, protocol: str) -> None:
    if protocol != "paired":
        return
    firsts, seconds = (
        [frame.ref.slot for frame in turn.frames if frame.ref.side is side] for side in Side
    )
    assert firsts == seconds, "pairs are always pairs"
    if turn.number > 1 and turn.frames:
        assert [frame.ref.side for frame in turn.frames] == [*Side] * len(firsts)
        told = re.search(r"Retrieved (\d+) frame pairs \(\[([\d, ]*)\]\)", turn.told)
        assert int(told[1]) == len(firsts)
        assert [int(n) for n in told[2].split(",")] == firsts


@pytest.mark.parametrize("protocol", ["paired", "concat"])
@pytest.mark.parametrize("names", PAIRINGS, ids="+".join)
def test_every_kind_of_file_runs_to_its_end(names: tuple[str, str], protocol: ProtocolName) -> None:
    pair = VideoPair("A test.", *(FOLDER / name for name in names))
    events = list(judge(pair, ScriptedBackend(SCRIPTS[protocol]), Settings(protocol=protocol)))
    end = events[-1]
    assert end.stop is StopReason.ANSWERED, end.error
    turns = [event.turn for event in events if isinstance(event, TurnEnded)]
    assert len(turns) == 3
    for turn in turns:
        check_told_is_sent(turn, protocol)


@pytest.mark.parametrize("names", PAIRINGS[:3], ids="+".join)
def test_the_built_in_judge_reads_real_clips_to_the_end(names: tuple[str, str]) -> None:
    pair = VideoPair("A test.", *(FOLDER / name for name in names))
    events = list(judge(pair, open_backend("nano")))
    end = events[-1]
    assert end.stop not in (StopReason.FAILED, StopReason.CANCELLED), end.error
    for event in events:
        if isinstance(event, TurnEnded):
            check_told_is_sent(event.turn, "paired")
