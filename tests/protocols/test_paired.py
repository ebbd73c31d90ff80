"""The `paired` protocol: its indices, frames and messages."""

from __future__ import annotations

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.protocols import Paired
from vrthinker_core.types import FrameRef, FrameSelection, Problem, ProblemKind, Side
from vrthinker_core.types.frames import Grid
from vrthinker_core.types.messages import Image, Text

PAIRED = Paired()


def test_the_opening_is_eight_images_video_1_first_and_then_the_question() -> None:
    slots = (16, 48, 80, 112)
    assert PAIRED.opening_refs == tuple(
        FrameRef(slot, side) for side in (Side.FIRST, Side.SECOND) for slot in slots
    )
    system, user = PAIRED.opening_messages("A ball.", frames(PAIRED.opening_refs))
    assert (system.role, user.role) == ("system", "user")
    assert [type(part) for part in user.parts] == [Image] * 8 + [Text]
    assert tuple(frame.ref for frame in user.frames) == PAIRED.opening_refs


def test_an_index_means_that_frame_of_both_videos() -> None:
    assert PAIRED.frame_refs([60, 3]) == (
        FrameRef(60, Side.FIRST),
        FrameRef(60, Side.SECOND),
        FrameRef(3, Side.FIRST),
        FrameRef(3, Side.SECOND),
    )
    assert {PAIRED.frame_number(ref) for ref in PAIRED.frame_refs([60])} == {"60"}
    assert PAIRED.grid == Grid(128, "floor")


def test_a_tool_result_is_images_and_then_the_published_sentence() -> None:
    message = PAIRED.tool_result([10, 30], frames(PAIRED.frame_refs([10, 30])))
    assert message.role == "user"
    assert [type(part) for part in message.parts] == [Image] * 4 + [Text]
    assert (
        message.text
        == "<tool_response>Retrieved 2 frame pairs ([10, 30]) symmetrically from both videos.</tool_response>"
    )


def test_half_a_pair_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 indices are 4 frames"):
        PAIRED.tool_result([10, 30], frames(PAIRED.frame_refs([10, 30]))[:3])


@pytest.mark.parametrize(("fit", "mode"), [("squash", "square"), ("letterbox", "letterbox")])
def test_every_frame_is_448_square(fit: str, mode: str) -> None:
    protocol = Paired(fit=fit)  # type: ignore[arg-type]
    for opening in (True, False):
        assert protocol.sizing(opening).mode == mode
        assert protocol.sizing(opening).size(1920, 1080) == (448, 448)


def test_messages_without_frames_are_tool_responses() -> None:
    no_frames = Problem(ProblemKind.NO_VALID_FRAMES, "None of them exists.")
    for message in (
        PAIRED.tool_error(FrameSelection((), asked=1), (no_frames,)),
        PAIRED.tool_error(None, ()),
        PAIRED.already_shown([10, 20]),
    ):
        assert message.text.startswith("<tool_response>")
        assert message.text.endswith("</tool_response>")
        assert not message.frames
    assert (
        "None of them exists." in PAIRED.tool_error(FrameSelection((), asked=1), (no_frames,)).text
    )
    assert "[10, 20]" in PAIRED.already_shown([10, 20]).text


def test_a_retry_message_names_the_worst_problem_and_the_accepted_forms() -> None:
    minor, problem = (
        Problem(ProblemKind.REPAIRED, "A remark."),
        Problem(ProblemKind.BAD_JSON, "The call is broken."),
    )
    text = PAIRED.retry_message((minor, problem)).text
    assert "The call is broken." in text
    assert "A remark." not in text
    assert "<tool_call>" in text
    assert "<Answer>" in text
    assert "not end the comparison" in PAIRED.retry_message((minor,)).text


def test_the_redirect_holds_the_beginnings_of_a_call_and_of_an_answer() -> None:
    call, answer = PAIRED.redirect
    assert PAIRED.parse(f"{answer}TA=1, VQ=1, MQ=0, OA=1").kind == "answer"
    assert PAIRED.parse(f'{call}{{"frame_indices": [1]}}').kind == "tool"


def test_a_lower_limit_per_call_is_kept_and_named_to_the_judge() -> None:
    protocol = Paired(frames_per_call=2)
    wants = protocol.parse("<tool_call>[1, 2, 3]</tool_call>").wants
    assert wants is not None
    assert (wants.indices, wants.truncated) == ((1, 2), True)
    assert "1 to 2 of" in protocol.retry_message(()).text
