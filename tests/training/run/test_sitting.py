"""How long a run may go on, and what a person is told of it."""

from __future__ import annotations

import time

import pytest

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.commands.train_command import StepPace
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.run_folder import Sitting, begin_sitting


def test_a_sitting_without_a_limit_is_over_only_when_somebody_says_so() -> None:
    asked: list[bool] = []
    sitting = Sitting(lambda: bool(asked))
    assert sitting.deadline is None
    assert not sitting.part(0.1).over
    asked.append(True)
    assert sitting.over
    assert sitting.part(0.5).over


def test_a_part_has_its_share_of_what_is_left() -> None:
    deadline = begin_sitting(not_cancelled, 10).part(0.25).deadline
    assert deadline is not None
    assert 100 < deadline - time.monotonic() <= 150
    assert begin_sitting(not_cancelled, 0).over
    assert begin_sitting(not_cancelled, 0).part(0.5).over


@pytest.mark.parametrize(("minutes", "left"), [(None, "1 min"), (0.0, "0 s")])
def test_the_line_has_rate_time_left_and_reward(minutes: float | None, left: str) -> None:
    pace = StepPace(minutes)
    pace.add(StepMetrics("grpo", 11, 10.0, 0.1), 20)  # ten were done before this start
    pace.add(StepMetrics("grpo", 12, 10.0, 0.1, reward_total=1.5), 20)
    pace.starts["grpo"] = (10, time.monotonic() - 20)
    assert pace.line.startswith("grpo: 12 of 20, 10.0 s each, ")
    assert pace.line.endswith(f"{left} left, reward 1.50")
    pace.add(StepMetrics("rejection", 1, 1.0, 0.1), 5)
    assert pace.line.startswith("rejection: 1 of 5, ")


def test_no_rate_is_made_up_from_the_first_of_many_that_came_at_once() -> None:
    pace = StepPace()
    pace.add(StepMetrics("samples", 1, 0.0, 0.0), 10)
    assert pace.line == "samples: 1 of 10"
    pace.starts["samples"] = (1, time.monotonic() - 20)
    pace.add(StepMetrics("samples", 3, 0.0, 0.0), 10)
    assert pace.line.startswith("samples: 3 of 10, 10.0 s each, ")
