"""A teacher that misreads motion: what it writes follows from what it noted, and only these words are corrected."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.dialects.factory import make_dialect
from vrthinker_core.training.base.conversations import describe, judge
from vrthinker_core.training.drawn_teacher.misreading import ALWAYS, WORDS, draw_misreader
from vrthinker_core.training.drawn_teacher.phrases import HARDLY, JUMPS, MOVES
from vrthinker_core.training.drawn_teacher.replies import play_teacher
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD, TRAINING_SEEDS, DrawnPair, draw_pair
from vrthinker_core.types import Settings, Side

PAIRS = [draw_pair(TRAINING_SEEDS + number, SECOND_WORLD) for number in range(12)]
MOTION = re.compile(r", (moves oddly|moves|hardly moves|jumps); ")


@pytest.fixture(params=["paired", "concat"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return make_dialect(Settings(), request.param)


def _only_jumps(_: Side, __: str) -> str:
    return JUMPS


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair.seed))
def test_what_follows_from_a_misread_word_is_written_too(pair: DrawnPair, dialect: Dialect) -> None:
    turns = play_teacher(pair, dialect, misread=_only_jumps)
    for text, _, evidence in turns:
        assert set(MOTION.findall(text)) == {JUMPS}
        assert all(evidence.motion_flaw(side) is not None for side in Side)
        assert f"{JUMPS} at #" in text
    assert "MQ=0" in turns[-1][0]


@pytest.mark.parametrize("write", [describe, judge])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair.seed))
def test_a_corrected_reply_differs_in_the_motion_words_of_its_frames_alone(pair: DrawnPair, dialect: Dialect, write) -> None:  # type: ignore[no-untyped-def]
    misread = draw_misreader(np.random.default_rng(pair.seed))
    for reply in write(pair, dialect, _no_light, np.random.default_rng(1), misread):
        assert MOTION.sub("; ", reply.text) == MOTION.sub("; ", reply.corrected)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair.seed))
def test_who_misreads_nothing_has_nothing_to_correct(pair: DrawnPair, dialect: Dialect) -> None:
    plain = judge(pair, dialect, _no_light, np.random.default_rng(1))
    same = judge(pair, dialect, _no_light, np.random.default_rng(1), lambda _, word: word)
    assert plain == same
    assert all(reply.text == reply.corrected for reply in plain)


def test_corrected_words_are_those_that_the_frames_show() -> None:
    dialect, pair = make_dialect(Settings(), "paired"), PAIRS[0]
    first = judge(pair, dialect, _no_light, np.random.default_rng(1))[0]
    misread = judge(pair, dialect, _no_light, np.random.default_rng(1), _only_jumps)[0]
    assert MOTION.findall(misread.corrected) == MOTION.findall(first.text)


def test_many_videos_are_misread_with_one_word_and_others_at_many_frames() -> None:
    found = Counter()
    for number in range(400):
        misread = draw_misreader(np.random.default_rng(number))
        words = {misread(Side.FIRST, word) for word in (MOVES, HARDLY, JUMPS) * 6}
        found[next(iter(words)) if len(words) == 1 else "several"] += 1
    assert found["several"] / 400 == pytest.approx(1 - ALWAYS, abs=0.08)
    for word, share in WORDS.items():
        assert found[word] / 400 == pytest.approx(ALWAYS * share, abs=0.08)


def _no_light(frames):  # type: ignore[no-untyped-def]
    return [((0.5, 0.5), (0.5, 0.5)) for _ in frames]
