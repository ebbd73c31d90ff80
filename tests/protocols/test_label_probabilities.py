"""Each label of an answer has the probability of the very digit that said it, and of no other one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.protocols.test_conformance import CASES, reply_of
from vrthinker_core.protocols import Paired, make_protocol
from vrthinker_core.protocols.parser import MAX_CHARACTERS, label_probabilities
from vrthinker_core.protocols.segments import (
    mentioned_digits,
    strip_invisible,
    to_narrow,
)
from vrthinker_core.types import Dimension, Settings, Verdict
from vrthinker_core.types.messages import Completion, LabelToken

OTHER_DIGIT = {"0": "1", "1": "2", "2": "1"}


def telling(text: str, cut: bool = False) -> Completion:
    """A completion with probabilities at every digit, by which the digit can be found again."""
    tokens = [
        LabelToken(n, (n / len(text), 0.0, 0.0))
        for n, character in enumerate(text)
        if to_narrow(character) in OTHER_DIGIT
    ]
    return Completion(text, "length" if cut else "end", label_tokens=tuple(tokens))


def places(text: str, verdict: Verdict | None, cut: bool = False) -> dict[Dimension, int]:
    found = label_probabilities(telling(text, cut), verdict)
    return {dimension: round(shares[0] * len(text)) for dimension, shares in found.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_digit_of_each_label_is_the_one_that_decides_it(case: dict[str, Any]) -> None:
    """Another digit in its place, and the label is another one."""
    text, cut = reply_of(case), case["finish_reason"] == "length"
    if len(text) > MAX_CHARACTERS:
        assert label_probabilities(telling(text[: 2 * MAX_CHARACTERS]), Verdict()) == {}
        return
    protocol = make_protocol(Settings(), case["protocol"])
    verdict = protocol.parse(text, cut=cut).verdict
    labels = verdict.labels if verdict else {}
    found = places(text, verdict, cut)
    assert set(found) == set(labels)
    assert set(found.values()) <= mentioned_digits(text)
    for dimension, place in found.items():
        digit = to_narrow(text[place])
        assert digit == str(labels[dimension])
        changed = protocol.parse(
            text[:place] + OTHER_DIGIT[digit] + text[place + 1 :], cut=cut
        ).verdict
        assert changed.labels.get(dimension) != labels[dimension]


LABELS = st.fixed_dictionaries({dimension: st.integers(0, 2) for dimension in Dimension})
NOISE = st.text("\u200b\u00ad\x00", max_size=2)


@given(
    LABELS,
    LABELS,
    NOISE,
    NOISE,
    st.sampled_from(["{}={}", "{}： {}", '"{}": "{}"', "**{}** = {}", "({}): {}"]),
    st.booleans(),
)
def test_neither_reasoning_nor_hidden_characters_nor_a_second_mention_misleads(
    labels: dict[Dimension, int],
    quoted: dict[Dimension, int],
    noise: str,
    more: str,
    form: str,
    twice: bool,
) -> None:
    said = ", ".join(
        form.format(name[0] + noise + name[1], f"{more}{label}") for name, label in labels.items()
    )
    thought = " ".join(f"{name}={label}" for name, label in quoted.items())
    answer = f"{said}; {said}" if twice else said
    text = f"{noise}<Think>{thought}</Think>{more}<Answer>{answer}</Answer>"
    reply = Paired().parse(text)
    assert reply.verdict.labels == labels
    found = places(text, reply.verdict)
    assert list(found) == list(Dimension)
    before = {name: strip_invisible(text[:place]) for name, place in found.items()}
    names = [re.findall("TA|MQ|VQ|OA", before[name])[-1] for name in found]
    assert names == list(found), "each digit follows its own name"
    start = text.index("<Answer>")
    assert start < min(found.values()) <= max(found.values()) < start + len("<Answer>") + len(said)
    assert {name: int(text[place]) for name, place in found.items()} == labels


@given(
    st.text("TAMQVOA=:012 <>/Answer\u200b１", max_size=200),
    st.lists(st.integers(0, 250), max_size=8),
    st.booleans(),
)
def test_no_reply_raises_and_what_is_not_known_is_left_out(
    text: str, offsets: list[int], cut: bool
) -> None:
    tokens = tuple(LabelToken(offset, (0.1, 0.2, 0.3)) for offset in offsets)
    verdict = Paired().parse(text, cut=cut).verdict
    completion = replace(telling(text, cut), label_tokens=tokens)
    assert set(label_probabilities(completion, verdict)) <= set(places(text, verdict, cut))
    assert label_probabilities(replace(completion, label_tokens=()), verdict) == {}
    assert label_probabilities(completion, None) == {}
