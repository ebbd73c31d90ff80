"""Which runs are learnt from: the paper's two filters, their report, and the choice among own runs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.drawn_rollouts import look
from tests.training.test_token_rows import ANSWER, labelled
from vrthinker_core import ScriptedBackend
from vrthinker_core.training.filters import (
    Outcome,
    Reason,
    choose_runs,
    label_shares,
    refusal,
    report_lines,
)
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import Preference, Run, Settings, Verdict
from vrthinker_core.types.messages import Completion

TIES = Verdict(*[Preference.TIE] * 4)


def run_of(*replies: str | Completion, **settings: int) -> Run:
    judge = ScriptedBackend(replies, protocol="paired")
    (rollout,) = play([labelled(7)], judge, Settings(**settings))  # type: ignore[arg-type]
    return rollout.run


def reason(run: Run, truth: Verdict = TIES) -> Reason | None:
    found = refusal(run, truth)
    return found and found[0]


@pytest.mark.parametrize("name", ["TA", "VQ", "MQ", "OA"])
def test_every_label_must_be_the_known_one(name: str) -> None:
    assert reason(run_of(look(1), ANSWER)) is None
    found = refusal(run_of(look(1), ANSWER), replace(TIES, **{name: Preference.SECOND}))
    assert found == (Reason.LABELS, f"It says {name}=0, not 2.")
    assert reason(run_of(ANSWER), replace(TIES, **{name: None})) is None  # not known, not asked for


def test_one_turn_out_of_the_format_or_no_whole_final_answer_is_enough() -> None:
    assert reason(run_of("hm", ANSWER)) is Reason.FORMAT
    assert reason(run_of(look(1), look(500), ANSWER)) is Reason.FORMAT
    assert reason(run_of(look(1), look(2), look(3), max_turns=2)) is Reason.NO_ANSWER
    assert reason(run_of(Completion(ANSWER[:30], "length"))) is Reason.NO_ANSWER
    assert reason(replace(run_of(ANSWER), finished=None)) is Reason.NO_ANSWER
    assert reason(run_of(ANSWER), Verdict()) is Reason.NOT_KNOWN


def test_the_report_counts_by_reason_and_by_dimension() -> None:
    truth = {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
    outcomes = [
        Outcome(0, 0, truth, truth),
        Outcome(0, 1, truth, truth | {"MQ": 1}, Reason.LABELS),
        Outcome(1, 0, truth | {"MQ": 2}, {}, Reason.NO_ANSWER),
        Outcome(2, 0, truth | {"MQ": 1}, truth, Reason.LABELS),
    ]
    kept, *reasons, _, motion, _, _ = report_lines(outcomes)
    assert kept == "1 of 4 runs kept, of 1 of 3 pairs."
    assert reasons == [f"2 not kept: {Reason.LABELS}.", f"1 not kept: {Reason.NO_ANSWER}."]
    assert motion.startswith("MQ: 1 of 3 well-formed runs are right; tie / 1 / 2 were 33 % / 33 %")
    assert motion.endswith("before and are 100 % / 0 % / 0 % after.")
    assert report_lines([], choose_runs([]))[0] == "0 of 0 runs kept, of 0 of 0 pairs."


def outcome(pair: int, sample: int, kept: bool = True, replies: str = "", **truth: int) -> Outcome:
    labels = {"TA": 0, "MQ": 0, "VQ": 0, "OA": 0} | truth
    said = "" if kept else Reason.LABELS
    return Outcome(pair, sample, labels, labels, said, replies=replies or f"{pair} {sample}")


def test_plain_rejection_prefers_what_needs_no_look_and_the_choice_does_not() -> None:
    """The judge is right about ties in motion four times as often as about anything else."""
    rng, outcomes = random.Random(0), list[Outcome]()
    for pair in range(300):
        truth = {name: rng.randrange(3) for name in ("TA", "MQ", "VQ", "OA")}
        right = 0.2 if truth["MQ"] else 0.8
        outcomes += [outcome(pair, k, kept=rng.random() < right, **truth) for k in range(8)]
    plain = choose_runs(outcomes, each=8, tolerance=1)
    chosen = choose_runs(outcomes, each=2, least=0.2)
    wanted, found, without = (
        label_shares([each.truth for each in runs]) for runs in (outcomes[::8], chosen, plain)
    )
    assert without["MQ"][0] > 0.55, "this is what would be learnt without a choice"
    for name, shares in wanted.items():
        assert all(found[name][label] <= share + 0.03 for label, share in shares.items())
    assert len(chosen) >= 150
    assert max(Counter(each.pair for each in chosen).values()) == 2
    few = outcomes[:320]
    assert choose_runs(random.Random(1).sample(few, len(few))) == choose_runs(few)


def test_pairs_that_are_sometimes_wrong_come_before_those_that_never_are() -> None:
    easy = [outcome(pair, sample) for pair in range(6) for sample in range(2)]
    hard = [outcome(pair, sample, kept=sample == 0) for pair in range(6, 9) for sample in range(2)]
    chosen = choose_runs([*easy, *hard])
    said = "6 runs chosen to learn from; 3 of pairs that were sometimes wrong."
    assert said in report_lines([*easy, *hard], chosen)
    assert {each.pair for each in chosen} >= {6, 7, 8}
    assert {each.pair for each in choose_runs([*easy, *hard], most=3)} == {6, 7, 8}
    assert len(choose_runs(easy)) == 6, "if all are easy, they are all there is"


def test_balancing_leaves_its_least_however_uneven_the_survivors_are() -> None:
    survivors = [outcome(pair, 0) for pair in range(10)]
    lost = [outcome(pair, 0, kept=False, MQ=1) for pair in range(10, 30)]
    assert len(choose_runs([*survivors, *lost], least=0.5)) == 5


def test_runs_of_the_same_words_count_once() -> None:
    for words, kept in (("aaa", 1), ("aba", 2)):
        outcomes = [outcome(0, sample, replies=word) for sample, word in enumerate(words)]
        assert len(choose_runs([*outcomes, outcome(0, 9, kept=False)], each=3)) == kept
