"""The `concat` protocol: its one list of frames and its messages."""

from __future__ import annotations

import pytest

from tests.support.blank_frames import frame, frames
from vrthinker_core.protocols import Concat
from vrthinker_core.types import FrameSelection, Problem, ProblemKind, Side
from vrthinker_core.types.frames import Grid
from vrthinker_core.types.messages import Image, Text, Video

CONCAT = Concat()


def numbers(protocol: Concat) -> list[int]:
    return [int(protocol.frame_number(ref)) for ref in protocol.opening_refs]


def test_the_opening_is_every_nth_frame_or_spread_over_each_video_with_both_ends() -> None:
    assert numbers(CONCAT) == [1, 13, 25, 37, 49, 61, 73, 85]
    assert numbers(Concat(total=128)) == [1, 17, 33, 49, 65, 81, 97, 113]
    card = Concat(opening_rule="card")
    assert numbers(card) == [1, 17, 32, 48, 49, 65, 80, 96]
    assert f"First frames: {', '.join(map(str, numbers(card)))} (" in card.rules[1]


def test_the_list_holds_video_1_and_then_video_2() -> None:
    assert CONCAT.grid == Grid(48, "even")
    refs = [(ref.slot, int(ref.side)) for ref in CONCAT.frame_refs([48, 1, 96, 49])]
    assert refs == [(47, 1), (0, 1), (47, 2), (0, 2)]


@pytest.mark.parametrize("total", [16, 96])
def test_frame_number_is_the_inverse_of_frame_refs(total: int) -> None:
    protocol, everything = Concat(total=total), range(1, total + 1)
    refs = protocol.frame_refs(everything)
    assert [int(protocol.frame_number(ref)) for ref in refs] == list(everything)


@pytest.mark.parametrize(("opening_rule", "sizes"), [("training", [8]), ("card", [4, 4])])
def test_the_first_frames_are_packed_as_video_items(opening_rule: str, sizes: list[int]) -> None:
    protocol = Concat(opening_rule=opening_rule)  # type: ignore[arg-type]
    user = protocol.opening_messages("A ball.", frames(protocol.opening_refs))[1]
    assert [len(part.frames) for part in user.parts if isinstance(part, Video)] == sizes
    assert isinstance(user.parts[-1], Text)
    assert tuple(shown.ref for shown in user.frames) == protocol.opening_refs


def test_videos_of_different_shape_get_an_item_each_and_the_trace_says_so() -> None:
    mixed = [frame(ref, 56 if ref.side is Side.FIRST else 28) for ref in CONCAT.opening_refs]
    parts = CONCAT.opening_messages("A ball.", mixed)[1].parts
    items = [part for part in parts if isinstance(part, Video)]
    assert [len({(f.width, f.height) for f in item.frames}) for item in items] == [1, 1]
    assert any("differ in shape" in rule for rule in CONCAT.rules)


def test_a_tool_result_is_the_published_sentence_and_then_images() -> None:
    message = CONCAT.tool_result([3, 57], frames(CONCAT.frame_refs([3, 57])))
    assert [type(part) for part in message.parts] == [Text, Image, Image]
    assert message.text == "\nAfter selecting frames: Here are the selected frames"
    with pytest.raises(ValueError, match="2 indices are 2 frames, not 1"):
        CONCAT.tool_result([3, 57], frames(CONCAT.frame_refs([3])))


def test_frames_keep_their_aspect_within_the_published_areas() -> None:
    plan = CONCAT.frame_plan
    for sizing, most in ((plan.opening, 512 * 28 * 28), (plan.later, 400 * 28 * 28)):
        width, height = sizing.size(1920, 1080)
        assert 0.8 * most < width * height <= most


def test_a_call_out_of_range_is_refused_in_the_published_words() -> None:
    reply = CONCAT.parse('<tool_call>{"target_frames": [0, 97]}</tool_call>')
    expected = "After selecting frames:\nThere are 96 frames numbered in range [1,96]. Your selection is out of range."
    assert CONCAT.tool_error(reply.wants, reply.problems).text == expected


def test_other_tool_errors_keep_the_published_form() -> None:
    unknown = Problem(ProblemKind.UNKNOWN_TOOL, "There is no such tool.")
    assert CONCAT.tool_error(None, (unknown,)).text.endswith("frames:\nThere is no such tool.")
    assert "selecting frames:\nThe frames [3, 57] " in CONCAT.already_shown([3, 57]).text
    assert not CONCAT.tool_error(FrameSelection((), asked=1), ()).frames
