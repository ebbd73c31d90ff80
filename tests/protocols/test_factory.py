"""Settings: every default is filled in, and a number out of range is a BadInput with one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.types import ProtocolName, Settings

PROTOCOLS: tuple[ProtocolName, ...] = ("concat", "paired")


@pytest.mark.parametrize(
    ("protocol", "window", "turns", "frames"), [("concat", 1, 4, 8), ("paired", "all", 6, 12)]
)
def test_the_numbers_of_the_card_are_the_defaults(
    protocol: ProtocolName, window: object, turns: int, frames: int
) -> None:
    full = with_defaults(Settings(), make_protocol(Settings(), protocol))
    assert (full.protocol, full.window, full.max_turns, full.frames_per_call) == (
        protocol,
        window,
        turns,
        frames,
    )


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
    for wrong in (0, -1, most + 1):
        with pytest.raises(BadInput, match=f"between 1 and {most}; it is {wrong}"):
            make_protocol(Settings(frames_per_call=wrong), protocol)


@pytest.mark.parametrize(
    "wrong", [{"max_turns": 0}, {"max_turns": 33}, {"window": -1}, {"window": "some"}]
)
def test_numbers_out_of_range_are_refused_with_the_defaults(wrong: dict[str, Any]) -> None:
    settings = Settings(**wrong)
    with pytest.raises(BadInput):
        with_defaults(settings, make_protocol(settings, "paired"))


@pytest.mark.parametrize(
    "wrong",
    [{"preset": "x"}, {"fit": "x"}, {"opening": "x"}, {"total": 14}, {"total": 97}, {"total": -96}],
)
def test_settings_out_of_range_make_no_protocol(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="it is"):
        make_protocol(Settings(**wrong), "concat")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_says_how_the_open_points_were_decided(protocol: ProtocolName) -> None:
    rules = " ".join(
        make_protocol(Settings(opening="card", fit="letterbox", total=64), protocol).rules
    )
    assert ("letterboxed" in rules) is (protocol == "paired")
    assert ("1 to 32" in rules) is (protocol == "concat")
    assert "First frames" in rules
    assert "Packing" in rules
