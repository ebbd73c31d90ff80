"""Rejection sampling: hard pairs first, and labels as they were among the pairs."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import pytest

from vrthinker_core.commands.train_command import StepPace
from vrthinker_core.training.filters import Outcome, Reason, label_shares
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.rejection import choose_runs
from vrthinker_core.training.run_folder import TimeBudget

NAMES = ("TA", "MQ", "VQ", "OA")


def blind_judge(pairs: int, samples: int = 8, seed: int = 0) -> Iterator[Outcome]:
    """Labels are even in every dimension; the judge is right about ties in motion four times as often as about anything else."""
    rng = random.Random(seed)
    for pair in range(pairs):
        truth = {name: rng.randrange(3) for name in NAMES}
        for sample in range(samples):
            right = rng.random() < (0.8 if truth["MQ"] == 0 else 0.2)
            given = truth if right else truth | {"MQ": (truth["MQ"] + 1) % 3}
            said = "" if right else Reason.LABELS
            yield Outcome(pair, sample, truth, given, said, replies=f"{pair} {sample}")


def outcome(pair: int, sample: int, kept: bool = True, replies: str = "", **truth: int) -> Outcome:
    labels = dict.fromkeys(NAMES, 0) | truth
    said = "" if kept else Reason.LABELS
    return Outcome(pair, sample, labels, labels, said, replies=replies or f"{pair} {sample}")


def excess(shares: dict[str, dict[int, float]], wanted: dict[str, dict[int, float]]) -> float:
    places = [(name, label) for name, labels in shares.items() for label in labels]
    return max(shares[name][label] - wanted[name][label] for name, label in places)


def test_plain_rejection_prefers_what_needs_no_look_and_the_choice_does_not() -> None:
    outcomes = list(blind_judge(300))
    plain = choose_runs(outcomes, each=8, tolerance=1, easy=100)
    assert plain.shares["MQ"][0] > 0.55, "this is what would be learnt without a choice"
    chosen = choose_runs(outcomes, each=2, tolerance=0.03, least=0.2, easy=100)
    assert excess(chosen.shares, chosen.report.labels_before) <= 0.03
    assert len(chosen.outcomes) >= 150
    assert chosen.shares == label_shares([each.truth for each in chosen.outcomes])
    assert all(each.kept for each in chosen.outcomes)
    assert max(sum(each.pair == pair for each in chosen.outcomes) for pair in range(300)) <= 2


def test_the_choice_depends_on_no_order() -> None:
    outcomes = list(blind_judge(40))
    shuffled = random.Random(1).sample(outcomes, len(outcomes))
    assert choose_runs(shuffled) == choose_runs(outcomes)


def test_pairs_that_are_sometimes_wrong_come_before_those_that_never_are() -> None:
    easy = [outcome(pair, sample) for pair in range(6) for sample in range(2)]
    hard = [outcome(pair, sample, kept=sample == 0) for pair in range(6, 9) for sample in range(2)]
    chosen = choose_runs([*easy, *hard])
    assert (len(chosen.outcomes), chosen.hard) == (6, 3)
    assert {each.pair for each in chosen.outcomes} >= {6, 7, 8}
    assert choose_runs([*easy, *hard], most=3).hard == 3
    assert len(choose_runs(easy).outcomes) == 6, "where all are easy they are all there is"


def test_balancing_leaves_its_least_however_uneven_the_survivors_are() -> None:
    survivors = [outcome(pair, 0) for pair in range(10)]
    lost = [outcome(pair, 0, kept=False, MQ=1) for pair in range(10, 30)]
    assert len(choose_runs([*survivors, *lost], least=0.5).outcomes) == 5


@pytest.mark.parametrize(("words", "kept"), [(("a", "a", "a"), 1), (("a", "b", "a"), 2)])
def test_runs_of_the_same_words_count_once(words: tuple[str, ...], kept: int) -> None:
    outcomes = [outcome(0, sample, replies=word) for sample, word in enumerate(words)]
    outcomes.append(outcome(0, 9, kept=False))
    assert len(choose_runs(outcomes, each=3).outcomes) == kept


def test_what_survives_is_said_by_dimension_with_labels_before_and_after() -> None:
    chosen = choose_runs(list(blind_judge(60)))
    assert chosen.lines[0].startswith(f"{chosen.report.kept} of 480 runs kept")
    text, runs, hard = "\n".join(chosen.lines), len(chosen.outcomes), chosen.hard
    assert re.search("^MQ: .*well-formed runs are right", text, re.M)
    assert f"\n{runs} runs chosen to learn from; {hard} " in text
    assert sum(line.startswith("MQ: tie / 1 / 2 were") for line in chosen.lines) == 2


def test_where_nothing_survives_nothing_is_chosen() -> None:
    assert choose_runs([outcome(0, 0, kept=False)]).outcomes == ()
    assert choose_runs([]).lines == [
        "0 of 0 runs kept, of 0 of 0 pairs.",
        *choose_runs([]).lines[1:],
    ]


def test_a_sitting_without_a_limit_is_over_only_when_somebody_says_so() -> None:
    asked: list[bool] = []
    time_budget = TimeBudget(lambda: bool(asked))
    assert time_budget.deadline is None
    assert not time_budget.part(0.1).over
    asked.append(True)
    assert time_budget.over
    assert time_budget.part(0.5).over


def test_a_part_has_its_share_of_what_is_left() -> None:
    deadline = TimeBudget(deadline=time.monotonic() + 600).part(0.25).deadline
    assert 100 < deadline - time.monotonic() <= 150
    assert TimeBudget(deadline=time.monotonic()).over
    assert TimeBudget(deadline=time.monotonic()).part(0.5).over


@pytest.mark.parametrize(("minutes", "left"), [(None, "1 min"), (0.0, "0 s")])
def test_the_line_has_rate_time_left_and_reward(minutes: float | None, left: str) -> None:
    pace = StepPace(minutes)
    pace.count(StepMetrics("grpo", 11, 10.0, 0.1), 20)  # ten were done before this start
    pace.starts["grpo"] = (10, time.monotonic() - 20)
    line = pace.count(StepMetrics("grpo", 12, 10.0, 0.1, reward_total=1.5), 20)
    assert line.startswith("grpo: 12 of 20, 10.0 s each, ")
    assert line.endswith(f"{left} left, reward 1.50")
    line = pace.count(StepMetrics("rejection", 1, 1.0, 0.1), 5)
    assert line.startswith("rejection: 1 of 5, ")


def test_no_rate_is_made_up_from_the_first_of_many_that_came_at_once() -> None:
    pace = StepPace()
    assert pace.count(StepMetrics("samples", 1, 0.0, 0.0), 10) == "samples: 1 of 10"
    pace.starts["samples"] = (1, time.monotonic() - 20)
    line = pace.count(StepMetrics("samples", 3, 0.0, 0.0), 10)
    assert line.startswith("samples: 3 of 10, 10.0 s each, ")
