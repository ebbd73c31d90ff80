"""The teacher's snapshots are read into the same table of frames as those of the first built-in judge."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from vrthinker_core.drawn import facts, faults, photographs, solids, textures
from vrthinker_core.drawn import wear as damage
from vrthinker_core.drawn.teacher import play_teacher
from vrthinker_core.drawn.world import FULL, draw_pair
from vrthinker_core.protocols import frame_facts, make_protocol
from vrthinker_core.protocols.frame_facts import MOTIONS, read_frame_facts
from vrthinker_core.types import ProtocolName, Settings, Side

WORDS = dict(zip(MOTIONS, ("", "moves", "hardly moves", "jumps", "moves oddly"), strict=True))


def test_every_word_of_the_drawn_world_is_known() -> None:
    assert tuple(facts.COLOURS) == frame_facts.COLOURS
    assert tuple(facts.DIRECTIONS) == frame_facts.DIRECTIONS
    assert tuple(solids.SHAPES) == frame_facts.SHAPES
    assert (faults.CLEAR, *damage.DAMAGES) == frame_facts.PICTURES
    assert (*textures.GROUNDS, photographs.PHOTO) == frame_facts.GROUNDS


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_every_frame_is_read_as_it_was_noted(protocol: ProtocolName) -> None:
    prompts = make_protocol(Settings(), protocol)
    pairs = [
        draw_pair(seed, world)
        for seed in range(20)
        for world in (FULL, replace(FULL, no_thing=1.0))
    ]
    for pair in pairs:
        for text, _, evidence in play_teacher(pair, prompts):
            snapshot = prompts.parse(text).snapshot
            read = read_frame_facts(snapshot)
            assert [video.side for video in read] == list(Side)
            for video in read:
                noted = [frame for frame in evidence.looks[-1] if frame.side is video.side]
                facts = [(fact.frame, fact.picture, WORDS[fact.motion]) for fact in video.frames]
                assert facts == [(frame.number, frame.state, frame.motion) for frame in noted]
                assert bool(video.shows) == (len(evidence.looks) == 1)


def test_where_no_thing_can_be_followed_the_light_is() -> None:
    protocol = make_protocol(Settings(), "paired")
    for text, _, _ in play_teacher(draw_pair(0, replace(FULL, no_thing=1.0)), protocol):
        assert "nothing to follow" not in text
        assert re.search(r"#\d+ at \d+%,\d+% and at \d+%,\d+%(?: \([^)]*\))? clear", text)


def test_a_snapshot_that_holds_anything_else_is_no_table() -> None:
    whole = "Video 1 shows a red ball moving right: #16 at 36%,28% clear; so far clear, moves smoothly.\n"
    assert read_frame_facts(whole)
    assert not read_frame_facts(whole.replace("; so far", "; and a cat; so far"))
    assert not read_frame_facts(whole.replace("clear;", "splendid;"))


def test_no_video_is_left_out_of_the_table() -> None:
    readable = "Video 2 shows a real scene and its light: #49 at 1%,1% clear; so far clear, moves smoothly."
    assert read_frame_facts(f"The frames.\n{readable}")
    for other in (
        "Video 1 shows a green ring and at 48%,71% clear; so far clear.",
        "Video 1 is dark.",
    ):
        assert not read_frame_facts(f"{other}\n{readable}")
