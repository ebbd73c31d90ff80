"""Reasoning that other models write: behind no opening tag, or between tags of their own. What it quotes is never acted on."""

from __future__ import annotations

import pytest

from tests.protocols.test_label_probabilities import places
from vrthinker_core.protocols import Concat, Paired, PromptProtocol
from vrthinker_core.protocols.segments import before_action, lost_its_opening
from vrthinker_core.types import Dimension, ProblemKind, Reply

PAIRED, CONCAT = Paired(), Concat()
PROTOCOLS = pytest.mark.parametrize("protocol", [PAIRED, CONCAT], ids=["paired", "concat"])
ONE, TWO = "TA=1, MQ=1, VQ=1, OA=1", "TA=2, MQ=2, VQ=2, OA=2"
QUOTED = f"say <Answer>{ONE}</Answer>"
OWN = "<Snapshot>s</Snapshot><Think>t</Think>"


def tags(protocol: PromptProtocol) -> tuple[str, str, str]:
    """(a quoted answer, a quoted call, a call for frame 64)."""
    begin = protocol.redirect[1]
    return f"{begin}{ONE}{begin.replace('<', '</')}", protocol.call([1]), protocol.call([64])


def action(reply: Reply) -> tuple[str, tuple[int, ...], dict[Dimension, int]]:
    wants, labels = reply.wants, reply.verdict.labels if reply.verdict else {}
    numbers = {name: int(label) for name, label in labels.items()}
    return reply.kind, wants.indices if wants else (), numbers


FORMS = [
    ("", "</think>"),
    ("", " </THINK>\n</think>"),
    ("<thinking>", "</thinking>"),
    ("", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("", "</reasoning>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("", "</mm:think>"),
    ("[THINK]", "[/THINK]"),
    ("", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel>thought\n", "<channel|>"),
    ("thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("Here is my thought process: ", "Here is my response: "),
]


@PROTOCOLS
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("begin", "end"), FORMS)
def test_what_reasoning_quotes_neither_ends_the_run_nor_asks_for_frames(
    begin: str, end: str, cut: bool, protocol: PromptProtocol
) -> None:
    answer, call, wanted = tags(protocol)
    quotations = [answer, call, f"{call} or {answer}", f"{answer} in <Think> tags"]
    for quoted in (*quotations, f"<tool_call> or {protocol.redirect[1]}"):
        said = f"{begin}I could end with {quoted}. No.{end}\n\n"
        asks = protocol.parse(f"{said}{OWN}{wanted}", cut=cut)
        ends = protocol.parse(f"{said}{OWN}<Answer>{TWO}</Answer>", cut=cut)
        assert action(asks) == ("tool", (64,), {})
        assert action(ends) == ("answer", (), dict.fromkeys(Dimension, 2))
        assert (asks.problems, ends.problems) == ((), ())
        assert "I could end with " in asks.think + asks.snapshot
        if "<Think>" not in quoted:
            assert (asks.snapshot, asks.think.endswith("\nt")) == ("s", True)
            # No quotation stands in for what is missing
            assert protocol.parse(f"{said}Video 2.", cut=cut).kind == "invalid"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{OWN}<Answer>{ONE}</Answer></think>", "answer"),
        (f"{OWN}<Answer>{ONE}</think>", "answer"),
        (f"{OWN}<Answer>{ONE}</think></Answer>", "answer"),
        (f"{OWN}<Answer>{ONE}</Answer> That is all.</Think>", "answer"),
        (f"It is clear. <Answer>{ONE}</Answer>\n</think>\n", "answer"),
        (f"raw</think>{OWN}<Answer>{ONE}</Answer></think>\nVideo 1.", "answer"),
        (f"{OWN}{PAIRED.call([7])}\n</think></think>", "tool"),
        (f"I could say <Answer>{ONE}</Answer>, but no.\n</think>", "invalid"),
        (f"Here: <Answer>{ONE}</Answer><Think>because</Think> Good.", "answer"),
    ],
)
def test_a_closing_tag_that_nothing_follows_is_a_slip_behind_an_action(
    text: str, found: str
) -> None:
    reply = PAIRED.parse(text)
    assert reply.kind == found
    assert "<Answer>" not in reply.think or found == "invalid"


@pytest.mark.parametrize(
    ("text", "think"),
    [
        (f"I close with </Think>, then <Answer>{ONE}</Answer>.\n</think>{PAIRED.call([64])}", None),
        (f"<Think>I close with </Think>, <Answer>{ONE}</Answer>.</Think>{PAIRED.call([64])}", None),
        (f"<Snapshot>s</Snapshot>I {QUOTED}?</Think>{PAIRED.call([64])}", f"I {QUOTED}?"),
        (f"<Think><Think>t</Think></Think>{PAIRED.call([64])}", "<Think>t"),
        ('<Think>t</Think><tool_call>{"frame_indices": [64], "why": "</think>"}</tool_call>', "t"),
        ('<tool_call>{"frame_indices": [64], "why": "<Answer>q</Answer> </think> x"}', ""),
        (f"<Snapshot>A sign: </think>[/THINK]</Snapshot>{PAIRED.call([64])}", ""),
    ],
)
def test_closing_tags_that_are_quoted_or_doubled_mislead_nobody(
    text: str, think: str | None
) -> None:
    reply = PAIRED.parse(text)
    assert action(reply) == ("tool", (64,), {})
    assert think is None or reply.think == think


@pytest.mark.parametrize(
    ("invented", "kept"),
    [
        ("<turn|>\n<|turn>user\n", ""),
        ("<|start|>user<|message|>", ""),
        ("<|im_end|>", ""),
        ("<end_of_turn>\n<start_of_turn>user\n", ""),
        ("<|eot_id|><|start_header_id|>user<|end_header_id|>", ""),
        ("<|observation|>\n", ""),
        ("<|end|><|user|>", ""),
        ("</s>[INST] ", ""),
        ("<｜end▁of▁sentence｜><｜User｜>", ""),
        ("<|end|><|start|>assistant<|channel|>final<|message|>", None),
        ("<|channel>thought\nok<channel|>", None),
    ],
)
def test_only_a_turn_of_somebody_else_is_invented(invented: str, kept: str | None) -> None:
    own = f"<|channel>thought\n<Answer>{ONE}</Answer><channel|>{PAIRED.call([64])}"
    reply = PAIRED.parse(f"{own}{invented}<Answer>{TWO}</Answer>")
    assert reply.text == (own if kept is not None else f"{own}{invented}<Answer>{TWO}</Answer>")
    found = [problem.kind for problem in reply.problems]
    assert (ProblemKind.INVENTED in found) is (kept is not None)
    assert reply.kind == ("tool" if kept is not None else "answer")


@PROTOCOLS
def test_every_view_of_a_reply_agrees_with_its_reading(protocol: PromptProtocol) -> None:
    """As far as it has come, without its action, by its label probabilities, and by what a server may have taken out of it."""
    answer, call, wanted = tags(protocol)
    said = f"I could end with {answer} or {call}.\n</think>\n\n"
    text = f"{said}{OWN}<Answer>{TWO}</Answer>"
    for end in range(len(said), len(text) + 1):
        live = protocol.parse(text[:end], cut=True)
        assert live.think.startswith("I could end with ")
        assert live.wants is None
        assert live.verdict is None or "1" not in str(live.verdict.labels)
    assert before_action(f"{said}{OWN}{wanted}") == before_action(text) == f"{said}{OWN}"
    assert protocol.parse(before_action(text) + wanted).kind == "tool"
    assert min(places(text, protocol.parse(text).verdict).values()) > len(said)
    assert lost_its_opening(f"I could end with {answer}.\n</think>{OWN}{{}}</tool_call>")
