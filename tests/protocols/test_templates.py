"""The prompts are those of the published cards, byte for byte."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.protocols import Concat, Paired, PromptProtocol
from vrthinker_core.protocols.base import prompt_text

GOLDEN = Path(__file__).parents[1] / "golden"
SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
PROMPTS = {
    "concat": "A cinematic shot of a waterfall in a lush forest.",
    "paired": "A robot rides a unicorn across a rainbow bridge.",
}
PROTOCOLS: dict[str, PromptProtocol] = {"concat": Concat(), "paired": Paired()}
MANGLED_DASH, DASH = "\u0e42", "—"

with_seeds = pytest.mark.skipif(
    not SEEDS.is_dir(), reason="the cards are not part of the repository"
)


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_bytes().decode("utf-8")


def sent(protocol: str, prompt: str) -> tuple[str, str]:
    """The system text and the user text of a comparison."""
    prompts = PROTOCOLS[protocol]
    system, user = prompts.opening_messages(prompt, frames(prompts.opening_refs))
    assert system.text == prompts.system
    return system.text, user.text


def seed(start: str) -> str:
    (path,) = SEEDS.glob(f"{start}_*.txt")
    return path.read_bytes().decode("utf-8")


def concat_card() -> tuple[str, str]:
    """(system, user) as the snippet on the card builds them."""
    text = seed("000")
    module = ast.parse(text[text.index("import json") : text.index("\nCitation")])
    wanted = ("prompt_for_videos", "dim_name", "dim_explain", "N", "prompt_text", "sys_prompt")
    names: dict[str, object] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]).strip(
            "("
        ).startswith(wanted):
            exec(compile(ast.Module([statement], []), "<card>", "exec"), {}, names)
    return str(names["sys_prompt"]), str(names["prompt_text"])


def paired_card() -> tuple[str, str]:
    text = seed("001")
    system = text.split('SYSTEM_PROMPT = """', 1)[1].split('"""', 1)[0]
    user = text.split("user_text = ", 1)[1].split("\nmessages = ", 1)[0]
    code = compile(ast.parse(user.strip(), mode="eval"), "<card>", "eval")
    return system.replace(MANGLED_DASH, DASH), str(eval(code, {}, {"prompt": PROMPTS["paired"]}))


@pytest.mark.parametrize("protocol", ["concat", "paired"])
def test_prompts_are_the_golden_ones(protocol: str) -> None:
    assert sent(protocol, PROMPTS[protocol]) == (
        golden(f"{protocol}_system"),
        golden(f"{protocol}_user"),
    )


@with_seeds
def test_golden_prompts_are_those_of_the_cards() -> None:
    assert concat_card() == (golden("concat_system"), golden("concat_user"))
    assert paired_card() == (golden("paired_system"), golden("paired_user"))


def test_the_clean_preset_corrects_four_faults_and_nothing_else() -> None:
    refs = frames(Concat().opening_refs)
    card, clean = (
        Concat(preset).opening_messages("p", refs)[1].text for preset in ("card", "clean")
    )
    changed = [
        pair
        for pair in zip(card.splitlines(), clean.splitlines(), strict=True)
        if pair[0] != pair[1]
    ]
    assert len(changed) == 3, "the two faults of the numbers stand in one line"
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
