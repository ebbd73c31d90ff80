"""What a judge wrote about one dimension, and the frames that it names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from tests.protocols.test_conformance import CASES
from vrthinker_core.protocols import make_protocol
from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.types import Dimension, Settings

SHOWN = [str(number) for number in range(128)]

THINK = (
    "TA: video 1 follows the prompt at 1.5 s, see frame 30. Its motion is smooth in frames 10, 60 and 90.\n"
    "VQ: both are clear, so 0. MQ: video 2 leaps."
)


@pytest.mark.parametrize(
    ("dimension", "sentence", "frames"),
    [
        (Dimension.TA, "TA: video 1 follows the prompt at 1.5 s, see frame 30.", [30]),
        (Dimension.VQ, "VQ: both are clear, so 0.", []),
        (Dimension.MQ, "MQ: video 2 leaps.", []),
        (Dimension.OA, "", []),
    ],
)
def test_a_sentence_and_the_frames_it_names(
    dimension: Dimension, sentence: str, frames: list[int]
) -> None:
    assert find_sentence(dimension, [THINK]) == sentence
    assert frame_numbers(sentence, SHOWN[10:]) == frames


def test_a_text_without_the_dimension_is_passed_over() -> None:
    assert (
        find_sentence(Dimension.OA, ["Nothing.", "Overall, video 2 is better.", "Overall, a tie."])
        == "Overall, video 2 is better."
    )


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("Its motion is smooth in frames 10, 60 and 90.", [10, 60, 90]),
        ("#16 and #48 differ, video 2 less.", [16, 48]),
        ("It jumps between 14 and 18.", [14, 18]),
        ("At 32 it is blurry, at 64 sharp again (Video 2).", [32, 64]),
        ("Videos 3 and 5 differ by 7 %, 12px, 1.5 s, 30:10 and TA=9 at frame 500.", []),
        ("Two agree.", []),
    ],
)
def test_numbers_that_were_shown_count_as_frames_whatever_they_are_called(
    sentence: str, numbers: list[int]
) -> None:
    assert frame_numbers(sentence, SHOWN) == numbers
    assert frame_numbers(sentence, []) == []


@pytest.mark.parametrize(
    ("dimension", "sentence"),
    [
        (Dimension.VQ, "The first has fewer artefacts."),
        (Dimension.VQ, "Its picture quality is poor."),
        (Dimension.VQ, "Video 2 is less sharp."),
        (Dimension.VQ, "The hands of video 1 are distorted."),
        (Dimension.MQ, "It is jerky from 14 to 18."),
        (Dimension.MQ, "Video 1 flickers."),
        (Dimension.OA, "In every dimension the second one wins."),
    ],
)
def test_more_words_lead_to_a_dimension(dimension: Dimension, sentence: str) -> None:
    assert find_sentence(dimension, [f"The scene is a kitchen. {sentence} So be it."]) == sentence
    assert (
        find_sentence(dimension, [f"{dimension}: it is said here. {sentence}"])
        == f"{dimension}: it is said here."
    )


def test_the_quality_of_motion_is_no_quality_of_the_picture() -> None:
    assert find_sentence(Dimension.VQ, ["The quality of the motion is low."]) == ""


def test_of_all_known_replies_only_what_was_written_and_shown_is_named() -> None:
    """And of no label's digit, time or share is said that it is a frame."""
    quoted = 0
    for case in CASES:
        think = make_protocol(Settings(), case["protocol"]).parse(case.get("reply", "")).think
        for dimension in Dimension:
            sentence = find_sentence(dimension, [think])
            numbers = frame_numbers(sentence, SHOWN)
            quoted += bool(sentence)
            assert sentence in think
            for number in numbers:
                assert re.search(rf"(?<![\d=.])0*{number}(?![\d%])", sentence), case["id"]
    assert quoted


@given(st.text(max_size=400), st.sampled_from(Dimension))
def test_any_text_is_read(text: str, dimension: Dimension) -> None:
    sentence = find_sentence(dimension, [text])
    assert sentence in text
    assert set(frame_numbers(sentence, SHOWN)) <= set(range(128))
