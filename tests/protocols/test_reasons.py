"""What a judge wrote about one dimension, and the frames that it names."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.types import Dimension

SHOWN = [str(number) for number in range(128)]

THINK = (
    "TA: video 1 follows the prompt at 1.5 s, see frame 30. Its motion is smooth in frames 10, 60 and 90.\n"
    "VQ: both are clear, so 0. MQ: video 2 leaps."
)


@pytest.mark.parametrize(
    ("texts", "sentences"),
    [
        ([THINK], ["TA: video 1 follows the prompt at 1.5 s, see frame 30.", "MQ: video 2 leaps.", "VQ: both are clear, so 0.", ""]),
        (["Nothing.", "Overall, video 2 wins.", "Overall, a tie."], ["", "", "", "Overall, video 2 wins."]),
        (["The quality of the motion is low."], ["", "The quality of the motion is low.", "", ""]),
    ],
)  # fmt: skip
def test_the_first_sentence_about_a_dimension_is_found(
    texts: list[str], sentences: list[str]
) -> None:
    assert [find_sentence(dimension, texts) for dimension in Dimension] == sentences


@pytest.mark.parametrize(
    ("sentence", "numbers"),
    [
        ("Its motion is smooth in frames 10, 60 and 90.", [10, 60, 90]),
        ("#16 and #48 differ, video 2 less.", [16, 48]),
        ("TA: video 1 follows the prompt at 1.5 s, see frame 030.", [30]),
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
    said = f"{dimension}: it is said here."
    assert find_sentence(dimension, [f"{said} {sentence}"]) == said


@given(st.text(max_size=400), st.sampled_from(Dimension))
def test_any_text_is_read(text: str, dimension: Dimension) -> None:
    sentence = find_sentence(dimension, [text])
    assert sentence in text
    assert set(frame_numbers(sentence, SHOWN)) <= set(range(128))
