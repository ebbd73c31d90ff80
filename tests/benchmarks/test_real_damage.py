"""The cases of `real_damage` are balanced and damage stays in its window."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.real_damage import draw_cases, main, measure, read_clip, write_frames
from vrthinker_core import ScriptedBackend
from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.moving_scene import SceneRenderer
from vrthinker_core.drawn.world import FULL, draw_pair

CLIPS = [Path(f"clip{number}.mp4") for number in range(5)]


def test_every_damage_comes_in_turn() -> None:
    cases = draw_cases(CLIPS, 100, 0)
    assert Counter(damage.dimension for _, damage in cases) == {"VQ": 50, "MQ": 40, "": 10}
    assert {clip for clip, _ in cases} == set(CLIPS)
    assert len({damage.words for _, damage in cases}) == 28 + 12 + 1
    assert cases == draw_cases(CLIPS, 100, 0)


def test_damage_is_in_its_window_and_nowhere_else() -> None:
    scene = draw_pair(3, replace(FULL, no_thing=1.0, worn=0.0)).first
    renderer = SceneRenderer(scene, 112)
    clean = [renderer.frame(index) for index in range(FRAMES)]
    for _, damage in draw_cases(CLIPS, 60, 0):
        fault = damage.picture or damage.motion
        changed = {
            index
            for index, frame in enumerate(damage.frames(clean))
            if not np.array_equal(frame, clean[index])
        }
        assert changed <= set(fault.window if fault else ())
        assert not fault or len(changed) > len(fault.window) // 2


def test_a_clip_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    frames = [np.full((96, 128, 3), 40 + index, np.uint8) for index in range(FRAMES)]
    write_frames(tmp_path / "clip.mp4", frames)
    levels = [float(frame.mean()) for frame in read_clip(tmp_path / "clip.mp4")]
    assert levels == pytest.approx([40 + index for index in range(FRAMES)], abs=2.5)


def test_labels_are_those_of_the_replies_also_where_they_make_no_verdict(tmp_path: Path) -> None:
    write_frames(
        tmp_path / "clip.mp4",
        [np.full((64, 64, 3), 40 + index, np.uint8) for index in range(FRAMES)],
    )
    reply = "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=0, VQ=1, MQ=0, OA=1</Answer>"
    found = [
        measure([tmp_path / "clip.mp4"], ScriptedBackend([reply], scope=scope), 2, 0, tmp_path)
        for scope in ("any", "drawn")
    ]
    assert found[0] == found[1]
    assert (found[0]["pairs"], found[0]["stops"]) == (2, {"answered": 2})
    assert found[0]["shares"]["VQ"]["share"] == 0.5, "right in one of both orders"


def test_without_clips_it_says_where_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["real_damage", "--clips", str(tmp_path)])
    with pytest.raises(
        SystemExit,
        match=r"holds none of the clips that are needed .*: name their folder with --clips",
    ):
        main()
