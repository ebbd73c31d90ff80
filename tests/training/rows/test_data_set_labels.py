"""People's labels of the data set that was evaluated count where a vote gives none, in every kind of row and for every filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.rows.test_export import (
    ALL,
    ANSWER_AT_ONCE,
    FIRST,
    SECOND,
    TIE,
    judged,
    read,
    voted,
)
from tests.ui.support.saved_examples import write_example
from vrthinker_core.commands.export_commands import export_rows
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, TRACES, result_of, to_line
from vrthinker_core.traces import load, to_json
from vrthinker_core.training.export import ROWS
from vrthinker_core.training.teaching import RowFilter
from vrthinker_core.types import Settings, Trace, Verdict

VERDICT = Verdict(FIRST, SECOND, TIE, FIRST)
JUDGED = judged(TA=FIRST, MQ=SECOND, VQ=TIE, OA=FIRST)
Evaluated = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def evaluated(tmp_path: Path) -> Evaluated:
    """Exports an evaluation of one pair with these labels of the data set; gives its rows."""

    def export(
        trace: Trace, labels: Verdict, kind: str = "sft", chosen: RowFilter = ALL
    ) -> list[dict[str, Any]]:
        pair = EvaluationPair("id", 1, trace.started.prompt, "first.mp4", "second.mp4", labels)
        (tmp_path / TRACES).mkdir(exist_ok=True)
        (tmp_path / TRACES / "id.json").write_bytes(to_json(trace))
        (tmp_path / RESULTS).write_bytes(to_line(result_of(pair, trace, f"{TRACES}/id.json")))
        if not export_rows([tmp_path], kind, tmp_path / "out.rows", chosen).rows:
            return []
        return [{}] if kind == "videogen-reward" else read(tmp_path / "out.rows")

    return export


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
    assert evaluated(JUDGED, Verdict(), kind, RowFilter(voted_only=True)) == []
    assert evaluated(JUDGED, VERDICT, kind, RowFilter(voted_only=True))
    assert evaluated(JUDGED, VERDICT, kind, RowFilter(agreed_only=True))
    assert evaluated(JUDGED, differs, kind, RowFilter(agreed_only=True)) == []
    assert bool(evaluated(JUDGED, differs, kind, RowFilter(voted_only=True))) is (kind != "sft")
