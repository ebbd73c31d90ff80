"""The prompts are those of the published cards, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.blank_frames import frames
from vrthinker_core.backends.request_body import instructions_for
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import Concat, Paired, PromptProtocol, make_protocol
from vrthinker_core.protocols.base import prompt_text
from vrthinker_core.protocols.factory import for_data_set
from vrthinker_core.types import ProtocolName, Settings, Side
from vrthinker_core.types.settings import Preset

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


EXPLAINED = {
    "paper": [
        *("Text Alignment", "Alignment between video content and prompt"),
        *("Visual Quality", "The visual aesthetics of the video"),
        *("Motion Quality", "Level of motion coherence"),
    ],
    "paper-rapidata": [
        *("Alignment", "Alignment between video content and prompt"),
        *("Preference", "The intrinsic aesthetics of the video"),
        *("Coherence", "Level of temporal coherence"),
    ],
    "paper-mj-bench-video": [
        *("Alignment", "Alignment between video content and prompt"),
        *("Fineness", "The level of fineness in visual content"),
        *("Coherence & Consistency", "Level of temporal coherence and Consistency"),
    ],
}


@pytest.mark.parametrize("preset", EXPLAINED)
def test_the_papers_wording_is_golden_but_for_the_dimensions_of_each_data_set(
    preset: Preset,
) -> None:
    expected = golden("concat_user_paper")
    for own, other in zip(EXPLAINED["paper"], EXPLAINED[preset], strict=True):
        expected = re.sub(rf"(?m)^([123]\. )?{own}(?=\(|$)", rf"\g<1>{other}", expected, count=1)
    protocol = Concat(preset)
    opened = protocol.opening_messages(PROMPTS["concat"], frames(protocol.opening_refs))
    assert [message.text for message in opened] == [golden("concat_system"), expected]


def test_the_data_set_chooses_the_papers_dimensions_unless_a_person_did() -> None:
    for name in ("videogen-reward", "genai-bench", "csv", "rapidata", "mj-bench-video"):
        own = f"paper-{name}" if name in ("rapidata", "mj-bench-video") else "paper"
        assert for_data_set(Settings(preset="paper"), name).preset == own
        assert for_data_set(Settings(preset="paper-rapidata"), name).preset == "paper-rapidata"
        assert for_data_set(Settings(), name).preset == "card"


@pytest.mark.parametrize(("written", "read"), [(1, 3), (2, 2), (3, 1), (4, None)])
def test_the_papers_confidence_counts_from_high_to_low(written: int, read: int | None) -> None:
    labels = f"TA=0, VQ=1, MQ=0, OA=1, CF={written}"
    text = f"<Recommend Answer>{labels}</Recommend Answer>{Concat().call([3, 57])}"
    reply = Concat("paper").parse(text)
    assert (reply.kind, reply.confidence) == ("tool", read)
    assert (Concat().parse(text).confidence, len(reply.problems)) == (written, 0 if read else 1)


def test_only_the_papers_wording_is_taught_by_the_example_which_it_reads_itself() -> None:
    card, paper = (
        instructions_for(protocol.opening_messages("p", frames(protocol.opening_refs)))
        for protocol in (Concat(), Concat("paper"))
    )
    example = prompt_text("concat_example")
    assert (example in paper, example in card) == (True, False)
    assert "from 1 (sure) to 3 (low)" in paper
    texts = [part.partition("\n")[2] for part in example.split("\n\n")[1:]]
    first, second = map(Concat("paper").parse, texts)
    assert (first.kind, first.confidence, first.problems) == ("tool", 1, ())
    assert (second.kind, second.problems) == ("answer", ())


@pytest.mark.parametrize("opening_rule", ["training", "card"])
@pytest.mark.parametrize(
    ("shown", "total"),
    [*((8, n) for n in (16, 18, 96, 128)), (4, 16), (32, 96), (256, 256), (256, 300)],
)
def test_the_number_of_first_frames_is_told_and_shown(opening_rule: str, shown: int, total: int) -> None:  # fmt: skip
    settings = Settings(opening_frames=shown, total=total, opening=opening_rule)  # type: ignore[arg-type]
    protocol = make_protocol(settings, "concat")
    refs = protocol.opening_refs
    assert [ref.side for ref in refs] == [Side.FIRST] * (shown // 2) + [Side.SECOND] * (shown // 2)
    assert len(set(refs)) == shown
    text = protocol.opening_messages("p", frames(refs))[1].text
    assert f"- {shown} sampled frames are provided, evenly downsampled from {total} frames" in text
    assert f"- First {shown // 2} input frames sampled from {total / 2} actual frames" in text


@pytest.mark.parametrize(
    ("protocol", "shown", "why"),
    [
        ("paired", 32, "choose concat"),
        ("concat", 6, "multiple of 4"),
        ("concat", 100, "list of 96"),
    ],
)
def test_a_number_of_first_frames_that_does_not_fit_is_one_sentence(protocol: ProtocolName, shown: int, why: str) -> None:  # fmt: skip
    with pytest.raises(BadInput, match=f"^{shown} first frames do not fit .*{why}"):
        make_protocol(Settings(opening_frames=shown), protocol)


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
