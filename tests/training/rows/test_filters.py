"""The paper's two filters: which runs are learnt from, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.drawn_rollouts import look
from tests.training.rows.test_export import (
    ANSWER_AT_ONCE,
    FIRST,
    SECOND,
    TIE,
    judged,
    read,
    voted,
)
from tests.training.test_teacher import PAIRS, SCRIPTED, answer
from tests.training.test_token_rows import ANSWER, labelled
from tests.ui.support.saved_examples import write_example
from vrthinker_core import ScriptedBackend, export
from vrthinker_core.backends.base import Backend
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, TRACES, result_of, to_line
from vrthinker_core.traces import load, to_json
from vrthinker_core.training.export import ROWS
from vrthinker_core.training.filters import Outcome, Reason, label_shares, refusal, report_outcomes
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.training.row_set import keep_rollouts
from vrthinker_core.training.run_folder import ROLLOUTS
from vrthinker_core.types import Preference, Run, Settings, Trace, Verdict
from vrthinker_core.types.messages import Completion
from vrthinker_core.ui.runs_tab import TraceFiles

TIES = Verdict(*[Preference.TIE] * 4)


def run_of(*replies: str | Completion, **settings: int) -> Run:
    judge = ScriptedBackend(replies, protocol="paired")
    (rollout,) = play([labelled(7)], judge, Settings(**settings))  # type: ignore[arg-type]
    return rollout.run


def reason(run: Run, truth: Verdict = TIES) -> Reason | None:
    found = refusal(run, truth)
    return found and found.reason


def test_a_run_in_the_format_with_all_labels_right_is_kept() -> None:
    assert reason(run_of(look(1), ANSWER)) is None


@pytest.mark.parametrize("name", ["TA", "VQ", "MQ", "OA"])
def test_every_label_must_be_the_known_one(name: str) -> None:
    found = refusal(run_of(look(1), ANSWER), replace(TIES, **{name: Preference.SECOND}))
    assert found.reason is Reason.LABELS
    assert found.sentence == f"It says {name}=0, not 2."
    assert reason(run_of(ANSWER), replace(TIES, **{name: None})) is None  # not known, not asked for


def test_one_turn_out_of_the_format_is_enough() -> None:
    assert reason(run_of("hm", ANSWER)) is Reason.FORMAT
    assert reason(run_of(look(1), look(500), ANSWER)) is Reason.FORMAT


def test_without_a_whole_final_answer_nothing_is_learnt() -> None:
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
    report = report_outcomes(outcomes)
    assert (report.runs, report.kept, report.pairs, report.pairs_kept) == (4, 1, 3, 1)
    assert report.reasons == {Reason.LABELS: 2, Reason.NO_ANSWER: 1}
    assert report.right == {"TA": (3, 3), "MQ": (1, 3), "VQ": (3, 3), "OA": (3, 3)}
    assert report.labels_before["MQ"] == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert report.labels_after["MQ"] == {0: 1, 1: 0, 2: 0}
    assert "1 of 4 runs kept, of 1 of 3 pairs." in report.lines
    assert "MQ: 1 of 3 well-formed runs are right (33 %)." in report.lines
    shares = "MQ: tie / 1 / 2 were 33 % / 33 % / 33 % before and are 100 % / 0 % / 0 % after."
    assert shares in report.lines


def test_what_nobody_knows_has_no_share() -> None:
    assert label_shares([{"OA": 1}, {"OA": 1}, {}]) == {"OA": {0: 0, 1: 1, 2: 0}}
    assert report_outcomes([]).lines == ["0 of 0 runs kept, of 0 of 0 pairs."]


def judge(step: int) -> ScriptedBackend:
    """A judge that is right from step 10 on."""
    labels = PAIRS.drawn(0).verdict.labels
    if step < 10:
        labels |= {"OA": (labels["OA"] + 1) % 3}
    return ScriptedBackend([look(step), answer(labels)], protocol="paired")


def rollouts(backend: Backend, samples: int = 1) -> list[Rollout]:
    return list(play([PAIRS.pair(0)], backend, Settings(), samples))


def test_the_page_lists_a_judge_that_learns(tmp_path: Path) -> None:
    paths = [
        path
        for step in (0, 5, 10)
        for path in keep_rollouts(tmp_path, "grpo", step, rollouts(judge(step), samples=2))
    ]
    reader = TraceFiles(tmp_path / ROLLOUTS)
    rows = [row for _, row in reader.news() if row is not None]
    names = [path.name for path in paths]
    assert [row.told["source"] for row in rows] == names == sorted(names)
    assert rows[-1].told["source"] == "grpo-step-00010-sample-1.json"
    assert not any(row.told["error"] for row in rows)
    assert {row.prompt for row in rows} == {PAIRS.drawn(0).prompt}
    assert [row.told["judge"][-1] for row in rows[::2]] != [PAIRS.drawn(0).verdict.OA] * 3
    assert rows[-1].told["judge"][-1] == PAIRS.drawn(0).verdict.OA
    assert load(paths[-1]).started.judge == "scripted, grpo, step 10"
    assert {tuple(row.told["data_set"]) for row in rows} == {
        tuple(label for _, label in PAIRS.drawn(0).verdict)
    }
    assert ["overall" in row.traits for row in rows] == [True] * 4 + [False] * 2


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="Cannot write"):
        keep_rollouts(tmp_path / "file", "grpo", 0, rollouts(SCRIPTED(0)))


VERDICT = Verdict(FIRST, SECOND, TIE, FIRST)
JUDGED = judged(TA=FIRST, MQ=SECOND, VQ=TIE, OA=FIRST)
Evaluated = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def evaluated(tmp_path: Path) -> Evaluated:
    """Exports an evaluation of one pair with these labels of the data set; gives its rows."""

    def exported(
        trace: Trace, labels: Verdict, kind: str = "sft", **chosen: bool
    ) -> list[dict[str, Any]]:
        pair = EvaluationPair("id", 1, trace.started.prompt, "first.mp4", "second.mp4", labels)
        (tmp_path / TRACES).mkdir(exist_ok=True)
        (tmp_path / TRACES / "id.json").write_bytes(to_json(trace))
        (tmp_path / RESULTS).write_bytes(to_line(result_of(pair, trace, f"{TRACES}/id.json")))
        if not export([tmp_path], kind, tmp_path / "out.rows", **chosen).rows:
            return []
        return [{}] if kind == "videogen-reward" else read(tmp_path / "out.rows")

    return exported


def test_no_reply_teaches_what_the_data_set_contradicts(evaluated: Evaluated) -> None:
    assert evaluated(JUDGED, replace(VERDICT, OA=SECOND)) == []
    (row,) = evaluated(JUDGED, Verdict(OA=FIRST))
    assert row["labels"] == VERDICT.labels, "people's where they are known, else the judge's"


def test_a_vote_comes_before_the_data_set(evaluated: Evaluated) -> None:
    (row,) = evaluated(voted(JUDGED, OA=FIRST), replace(VERDICT, OA=SECOND))
    assert row["labels"]["OA"] == FIRST
    assert evaluated(voted(JUDGED, OA=SECOND), VERDICT) == []
    assert evaluated(voted(JUDGED, agrees=True), replace(VERDICT, OA=SECOND)) == []


def test_for_the_second_order_the_labels_are_turned_round(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    answers = [ANSWER_AT_ONCE]  # 1 overall in either order
    write_example(tmp_path / "both", settings=Settings(swap="on"), replies=answers)
    trace = load(tmp_path / "both" / "trace.json")
    (tmp_path / "both" / "trace.json").unlink()
    (given,) = evaluated(trace, Verdict(OA=FIRST))
    (swapped,) = evaluated(trace, Verdict(OA=SECOND))
    assert (given["order"], given["labels"]["OA"]) == ("given", FIRST)
    assert (swapped["order"], swapped["labels"]["OA"]) == ("swapped", FIRST)


@pytest.mark.parametrize("kind", ROWS)
def test_a_label_of_the_data_set_is_a_persons_for_the_filters(
    kind: str, evaluated: Evaluated
) -> None:
    differs = replace(VERDICT, TA=SECOND)
    assert evaluated(JUDGED, Verdict(), kind, voted_only=True) == []
    assert evaluated(JUDGED, VERDICT, kind, voted_only=True)
    assert evaluated(JUDGED, VERDICT, kind, agreed_only=True)
    assert evaluated(JUDGED, differs, kind, agreed_only=True) == []
    assert bool(evaluated(JUDGED, differs, kind, voted_only=True)) is (kind != "sft")
