"""Alarms: what goes wrong without an error is told once, and nothing is told where all is well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vrthinker_core.training.monitor.alarms import WINDOW, Alarms
from vrthinker_core.training.monitor.metrics import StepMetrics

STEP = StepMetrics("grpo", 1, 1.0, 0.1, reward_format=0.98, reward_gain=0.01, first_accuracy=0.6, entropy=0.4)


def course(first: dict[str, float | None], last: dict[str, float | None], steps: int = 4 * WINDOW) -> list[StepMetrics]:
    """Figures that go evenly from one to the other."""
    found = []
    for number in range(steps):
        share = number / (steps - 1)
        values = {
            name: None if start is None or last[name] is None else start + share * (last[name] - start)  # type: ignore[operator]
            for name, start in first.items()
        }
        found.append(replace(STEP, step=number + 1, **values))
    return found


def told(steps: list[StepMetrics]) -> list[str]:
    alarms = Alarms()
    return [sentence for step in steps for sentence in alarms.add(step)]


@pytest.mark.parametrize(
    ("first", "last", "begins"),
    [
        ({"first_accuracy": 0.6, "reward_gain": 0.01}, {"first_accuracy": 0.3, "reward_gain": 0.08}, "The CoT gain is being gamed"),
        ({"reward_format": 0.98}, {"reward_format": 0.5}, "The format is collapsing"),
        ({"entropy": 0.4}, {"entropy": 0.001}, "The entropy is collapsing"),
    ],
    ids=["gain", "format", "entropy"],
)
def test_what_goes_wrong_is_told_once_in_a_sentence(
    first: dict[str, float | None], last: dict[str, float | None], begins: str
) -> None:
    (sentence,) = told(course(first, last))
    assert sentence.startswith(begins)
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ({"first_accuracy": 0.6, "reward_gain": 0.01}, {"first_accuracy": 0.8, "reward_gain": 0.08}),
        ({"first_accuracy": 0.6, "reward_gain": 0.05}, {"first_accuracy": 0.3, "reward_gain": 0.01}),
        ({"reward_format": 0.5, "entropy": 0.4}, {"reward_format": 0.99, "entropy": 0.3}),
        ({"reward_format": None, "entropy": 6.7}, {"reward_format": None, "entropy": 0.1}),
        ({"first_accuracy": None, "reward_gain": None, "entropy": None}, {"first_accuracy": 1, "reward_gain": 1, "entropy": 1}),
    ],
    ids=["looking pays", "worse all over", "learning", "fine-tuning, which has no samples", "not known"],
)
def test_nothing_is_told_where_nothing_is_wrong(first: dict[str, float | None], last: dict[str, float | None]) -> None:
    assert told(course(first, last)) == []


def test_an_alarm_that_went_and_comes_again_is_told_again_and_a_stage_begins_anew() -> None:
    down = course({"reward_format": 1.0}, {"reward_format": 0.6})
    up = course({"reward_format": 1.0}, {"reward_format": 1.0})
    assert len(told([*down, *up, *down])) == 2
    other = [replace(step, stage="rejection") for step in down[-4:]]
    assert len(told([*down, *other])) == 1


def test_a_step_that_is_made_again_counts_once() -> None:
    steps = course({"reward_format": 1.0}, {"reward_format": 0.0}, steps=2 * WINDOW - 1)
    assert told([*steps, *steps[-3:]]) == []


def test_a_few_steps_say_nothing() -> None:
    assert told(course({"reward_format": 1.0}, {"reward_format": 0.0}, steps=2 * WINDOW - 1)) == []
