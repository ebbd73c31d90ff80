"""What a judge wrote about one dimension, and the frames that it names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrthinker_core.dialects.reading.reasons import find_sentence, frame_numbers
from vrthinker_core.types import Dimension

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
def test_a_sentence_and_the_frames_it_names(dimension: Dimension, sentence: str, frames: list[int]) -> None:
    assert find_sentence(dimension, [THINK]) == sentence
    assert frame_numbers(sentence) == frames


def test_a_text_without_the_dimension_is_passed_over() -> None:
    assert (
        find_sentence(Dimension.OA, ["Nothing.", "Overall, video 2 is better.", "Overall, a tie."]) == "Overall, video 2 is better."
    )


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("Its motion is smooth in frames 10, 60 and 90.", [10, 60, 90]),
        ("#16 and #48 differ, video 2 less.", [16, 48]),
        ("Indices 3-5, and 2 faults.", [3, 5, 2]),
        ("Two of 3 agree.", []),
    ],
)
def test_numbers_count_as_frames_where_they_are_called_so(sentence: str, numbers: list[int]) -> None:
    assert frame_numbers(sentence) == numbers


@given(st.text(max_size=400), st.sampled_from(Dimension))
def test_any_text_is_read(text: str, dimension: Dimension) -> None:
    sentence = find_sentence(dimension, [text])
    assert sentence in text
    frame_numbers(sentence)
