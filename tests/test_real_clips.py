"""Whole runs over real clips on either side, in both protocols, to the end. Needs the folder that VRT_CLIPS names."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.slow import slow
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
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="VRT_CLIPS names no folder of clips")
PAIRINGS = [
    ("mp_no_duration.webm", "dc_corrupted.mp4"),
    pytest.param(("pair01_unicorn_a.mp4", "mp_no_duration.webm"), marks=slow),
    pytest.param(("dc_corrupted.mp4", "ax_sample_h264.ts"), marks=slow),
    pytest.param(("ax_sample_h264.ts", "pair01_unicorn_a.mp4"), marks=slow),
]
CALL = '<think>t</think><tool_call>{"name": "select_frames", "arguments": {"%s": [%s]}}</tool_call>'
SCRIPTS = {
    "paired": [
        CALL % ("frame_indices", "0, 127, 127, 64, 3.5, -1, 200"),
        CALL % ("frame_indices", "64, 65, 66"),
        "<Answer>TA=0, VQ=0, MQ=0, OA=0</Answer>",
    ],
    "concat": [
        CALL % ("target_frames", "1, 96, 48, 49, 97, 0"),
        CALL % ("target_frames", "2, 96"),
        "<final answer>TA=0, VQ=0, MQ=0, OA=0</final answer>",
    ],
}


def check_told_is_sent(turn: Turn) -> None:
    refs = [frame.ref for frame in turn.frames]
    firsts, seconds = ([ref.slot for ref in refs if ref.side is side] for side in Side)
    assert firsts == seconds, "pairs are always pairs"
    if turn.number > 1 and refs:
        assert [ref.side for ref in refs] == [*Side] * len(firsts)
        told = re.search(r"Retrieved (\d+) frame pairs \(\[([\d, ]*)\]\)", turn.told)
        assert int(told[1]) == len(firsts)
        assert [int(n) for n in told[2].split(",")] == firsts


@pytest.mark.parametrize("judge_name", ["paired", "concat", pytest.param("nano", marks=slow)])
@pytest.mark.parametrize("names", PAIRINGS)
def test_a_run_over_real_clips_comes_to_its_end(names: tuple[str, str], judge_name: str) -> None:
    protocol: ProtocolName = "concat" if judge_name == "concat" else "paired"
    script = SCRIPTS.get(judge_name)
    backend = ScriptedBackend(script) if script else open_backend(judge_name)
    pair = VideoPair("A test.", *(FOLDER / name for name in names))
    events = list(judge(pair, backend, Settings(protocol=protocol)))
    end, turns = events[-1], [event.turn for event in events if isinstance(event, TurnEnded)]
    if script:
        assert end.stop is StopReason.ANSWERED, end.error
        assert len(turns) == 3
    assert end.stop not in (StopReason.FAILED, StopReason.CANCELLED), end.error
    for turn in turns if protocol == "paired" else ():
        check_told_is_sent(turn)
