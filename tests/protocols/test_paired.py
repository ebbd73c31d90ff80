"""The `paired` protocol: its indices, frames and messages."""

from __future__ import annotations

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.drawn.notes import SHAPES, read_frame_facts
from vrthinker_core.drawn.solids import FORMS
from vrthinker_core.drawn.teacher import play_teacher
from vrthinker_core.drawn.world import draw_pair
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import Concat, Paired, make_protocol, with_defaults
from vrthinker_core.types import (
    FrameSelection,
    Problem,
    ProblemKind,
    ProtocolName,
    Settings,
    Side,
)
from vrthinker_core.types.frames import Grid
from vrthinker_core.types.messages import Image, Text

PAIRED = Paired()


def test_the_opening_is_eight_images_video_1_first_and_then_the_question() -> None:
    slots = [(16, 1), (48, 1), (80, 1), (112, 1), (16, 2), (48, 2), (80, 2), (112, 2)]
    assert [(ref.slot, int(ref.side)) for ref in PAIRED.opening_refs] == slots
    system, user = PAIRED.opening_messages("A ball.", frames(PAIRED.opening_refs))
    assert (system.role, user.role) == ("system", "user")
    assert [type(part) for part in user.parts] == [Image] * 8 + [Text]
    assert tuple(frame.ref for frame in user.frames) == PAIRED.opening_refs


def test_an_index_means_that_frame_of_both_videos() -> None:
    refs = [(ref.slot, int(ref.side)) for ref in PAIRED.frame_refs([60, 3])]
    assert refs == [(60, 1), (60, 2), (3, 1), (3, 2)]
    assert {PAIRED.frame_number(ref) for ref in PAIRED.frame_refs([60])} == {"60"}
    assert PAIRED.grid == Grid(128, "floor")


def test_a_tool_result_is_images_and_then_the_published_sentence() -> None:
    message = PAIRED.tool_result([10, 30], frames(PAIRED.frame_refs([10, 30])))
    assert message.role == "user"
    assert [type(part) for part in message.parts] == [Image] * 4 + [Text]
    said = "Retrieved 2 frame pairs ([10, 30]) symmetrically from both videos."
    assert message.text == f"<tool_response>{said}</tool_response>"
    with pytest.raises(ValueError, match="2 indices are 4 frames"):
        PAIRED.tool_result([10, 30], frames(PAIRED.frame_refs([10, 30]))[:3])


@pytest.mark.parametrize(("fit", "mode"), [("squash", "square"), ("letterbox", "letterbox")])
def test_every_frame_is_448_square(fit: str, mode: str) -> None:
    plan = Paired(fit=fit).frame_plan  # type: ignore[arg-type]
    for sizing in (plan.opening, plan.later):
        assert sizing.mode == mode
        assert sizing.size(1920, 1080) == (448, 448)


def test_messages_without_frames_are_tool_responses() -> None:
    no_frames = Problem(ProblemKind.NO_VALID_FRAMES, "None of them exists.")
    refused = PAIRED.tool_error(FrameSelection((), asked=1), (no_frames,))
    shown = PAIRED.already_shown([10, 20])
    for message in (refused, PAIRED.tool_error(None, ()), shown):
        assert message.text.startswith("<tool_response>")
        assert message.text.endswith("</tool_response>")
        assert not message.frames
    assert "None of them exists." in refused.text
    assert "[10, 20]" in shown.text


def test_a_retry_message_names_the_worst_problem_and_the_accepted_forms() -> None:
    minor = Problem(ProblemKind.REPAIRED, "A remark.")
    problem = Problem(ProblemKind.BAD_JSON, "The call is broken.")
    forms = ((PAIRED, ["<Answer>"]), (Concat(), ["<final answer>", "<recommend answer>"]))
    for protocol, answers in forms:
        text = protocol.retry_message((minor, problem)).text
        assert all(part in text for part in ("The call is broken.", "<tool_call>", *answers))
        assert "A remark." not in text
        assert "not end the comparison" in protocol.retry_message((minor,)).text


PROTOCOLS: tuple[ProtocolName, ...] = ("concat", "paired")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_redirect_holds_the_beginnings_of_a_call_and_of_an_answer(name: ProtocolName) -> None:
    protocol = make_protocol(Settings(), name)
    call, answer = protocol.redirect
    assert protocol.parse(f"{answer}TA=1, VQ=1, MQ=0, OA=1").kind == "answer"
    assert protocol.parse(f'{call}{{"frame_indices": [1]}}').kind == "tool"


@pytest.mark.parametrize(
    ("protocol", "window", "turns", "frames"), [("concat", 1, 4, 8), ("paired", "all", 6, 12)]
)
def test_the_numbers_of_the_card_are_the_defaults(
    protocol: ProtocolName, window: object, turns: int, frames: int
) -> None:
    full = with_defaults(Settings(), make_protocol(Settings(), protocol))
    found = full.protocol, full.window, full.max_turns, full.frames_per_call
    assert found == (protocol, window, turns, frames)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_chosen_settings_are_kept(protocol: ProtocolName) -> None:
    chosen = Settings(protocol, window=0, max_turns=32, frames_per_call=3, seed=7)
    prompts = make_protocol(chosen, protocol)
    assert with_defaults(chosen, prompts) == chosen
    assert prompts.frames_per_call == 3
    assert with_defaults(with_defaults(chosen, prompts), prompts) == with_defaults(chosen, prompts)


@pytest.mark.parametrize(("protocol", "most"), [("concat", 8), ("paired", 12)])
def test_frames_per_call_may_not_exceed_the_limit_of_the_protocol(
    protocol: ProtocolName, most: int
) -> None:
    assert make_protocol(Settings(frames_per_call=most), protocol).frames_per_call == most
    lower = make_protocol(Settings(frames_per_call=2), protocol)
    wants = lower.parse("<tool_call>[1, 2, 3]</tool_call>").wants
    assert (wants.indices, wants.truncated) == ((1, 2), True)
    assert "1 to 2 of" in lower.retry_message(()).text, "it is named to the judge"
    for wrong in (0, -1, most + 1):
        with pytest.raises(BadInput, match=f"between 1 and {8 if wrong == 9 else 12}; it is"):
            make_protocol(Settings(frames_per_call=wrong), protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_says_how_the_open_points_were_decided(protocol: ProtocolName) -> None:
    settings = Settings(opening="card", fit="letterbox", total=64)
    rules = " ".join(make_protocol(settings, protocol).rules)
    assert ("letterboxed" in rules) is (protocol == "paired")
    assert ("1 to 32" in rules) is (protocol == "concat")
    assert "First frames" in rules
    assert "Packing" in rules


def test_every_shape_has_a_form() -> None:
    assert tuple(FORMS) == SHAPES


@pytest.mark.parametrize("protocol", ["paired", "concat"])
def test_every_frame_is_read_as_it_was_noted(protocol: ProtocolName) -> None:
    prompts = make_protocol(Settings(), protocol)
    for pair in map(draw_pair, range(16)):
        for text, evidence in play_teacher(pair, prompts):
            snapshot = prompts.parse(text).snapshot
            read = read_frame_facts(snapshot)
            assert [video.side for video in read] == list(Side)
            for video in read:
                noted = [frame for frame in evidence.looks[-1] if frame.ref.side is video.side]
                read_facts = [(fact.frame, fact.picture, fact.motion) for fact in video.frames]
                assert read_facts == [(frame.number, frame.state, frame.motion) for frame in noted]
                assert bool(video.shows) == (len(evidence.looks) == 1)


def test_notes_on_the_world_that_nano_learnt_are_read() -> None:
    """Stored runs hold two places of a frame, and things that have left it."""
    whole = (
        "Video 1, then video 2: #28 at 31%,65% and at 27%,44% (#16 with nothing to follow, #48 at "
        "30%,67% and at 27%,44%) dark, moves oddly; video 2 with nothing to follow clear, moves; "
        "so far video 1: dark at #28, moves smoothly; so far video 2: clear, moves smoothly."
    )
    facts = [fact for each in read_frame_facts(whole) for fact in each.frames]
    read = [(fact.frame, fact.picture, fact.motion) for fact in facts]
    assert read == [("28", "dark", "moves oddly"), ("28", "clear", "moves")]


def test_a_snapshot_that_holds_anything_else_is_no_table() -> None:
    whole = (
        "The frames.\nVideo 2 shows a red ball moving right: #16 at 36%,28% clear; so far clear, "
        "moves smoothly."
    )
    assert read_frame_facts(whole)
    assert not read_frame_facts(whole.replace("; so far", "; and a cat; so far"))
    assert not read_frame_facts(whole.replace("clear;", "splendid;"))
    for other in ("shows a green ring and at 48%,71% clear; so far clear.", "is dark."):
        assert not read_frame_facts(f"Video 1 {other}\n{whole}"), "no video is left out"
