"""The prompts are those of the published cards, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.protocols import Concat, Paired, PromptProtocol
from vrthinker_core.protocols.base import prompt_text

GOLDEN = Path(__file__).parents[1] / "golden"
PROMPTS = {
    "concat": "A cinematic shot of a waterfall in a lush forest.",
    "paired": "A robot rides a unicorn across a rainbow bridge.",
}
PROTOCOLS: dict[str, PromptProtocol] = {"concat": Concat(), "paired": Paired()}


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_bytes().decode("utf-8")


def sent(protocol: str, prompt: str) -> tuple[str, str]:
    """The system text and the user text of a comparison."""
    prompts = PROTOCOLS[protocol]
    system, user = prompts.opening_messages(prompt, frames(prompts.opening_refs))
    assert system.text == prompts.system
    return system.text, user.text


@pytest.mark.parametrize("protocol", ["concat", "paired"])
def test_prompts_are_the_golden_ones(protocol: str) -> None:
    system, user = golden(f"{protocol}_system"), golden(f"{protocol}_user")
    assert sent(protocol, PROMPTS[protocol]) == (system, user)


def test_the_clean_preset_corrects_four_faults_and_nothing_else() -> None:
    refs = frames(Concat().opening_refs)
    opened = (Concat(preset).opening_messages("p", refs)[1] for preset in ("card", "clean"))
    card, clean = (message.text for message in opened)
    lines = zip(card.splitlines(), clean.splitlines(), strict=True)
    assert sum(one != other for one, other in lines) == 3, "two faults stand in one line"
    assert "48.0" in card
    assert "48.0" not in clean
    assert "sampled from 48 actual frames of Video 2." in clean
    assert "**Text Alignment (TA)**" in clean
    assert "**Visual Quality (VQ)**" in clean
    assert "emporal" not in clean


def test_numbers_of_another_total_are_printed_as_the_card_would() -> None:
    protocol = Concat(total=128)
    text = protocol.opening_messages("p", frames(protocol.opening_refs))[1].text
    assert "downsampled from 128 frames" in text
    assert text.count("64.0 actual frames") == 2


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="prompt"):
        prompt_text("paired_user")


@pytest.mark.parametrize("protocol", ["concat", "paired"])
@pytest.mark.parametrize(
    "prompt", ["{{prompt}}", "{{total}} {N/2} {0} %s \\1 \\g<0>", "{", "日本語 — ‹x›", ""]
)
def test_a_placeholder_in_a_typed_prompt_is_never_replaced(protocol: str, prompt: str) -> None:
    before, after = golden(f"{protocol}_user").split(PROMPTS[protocol])
    assert sent(protocol, prompt)[1] == before + prompt + after
