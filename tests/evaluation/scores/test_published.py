"""Published numbers stand only beside results of the same set."""

from __future__ import annotations

import pytest

from tests.evaluation.support.made_results import left_out, result
from vrthinker_core.evaluation.figures import best_baseline, share
from vrthinker_core.evaluation.summary import PUBLISHED, published, published_remark, summarize


@pytest.mark.parametrize(
    ("data_set", "rows", "model", "tau", "diff"),
    [
        ("genai-bench", 1889, "VR-Thinker 7B", 0.687, 0.823),
        ("genai-bench", 1069, "LiFT 13B", 0.381, 0.594),
        ("videogen-reward", 26_500, "VideoScore 7B", 0.419, 0.502),
        ("mj-bench-video", 1085, "UnifiedReward-Think 7B", 0.628, 0.719),
    ],
)
def test_the_table_is_given_for_the_whole_set(
    data_set: str, rows: int, model: str, tau: float, diff: float
) -> None:
    scores = [
        {each.model: each.value for each in published(data_set, metric, rows, 0)}
        for metric in ("tau", "diff")
    ]
    assert [each[model] for each in scores] == [pytest.approx(tau), pytest.approx(diff)]
    assert all(len(each) == 7 for each in scores)


def test_a_part_of_a_set_or_another_set_has_none() -> None:
    assert published("genai-bench", "tau", 60, 0) == ()
    assert published("genai-bench", "tau", 1889, 400) == (), (
        "videos that are missing make it another set"
    )
    assert published("csv", "tau", 1889, 0) == ()
    assert "left out" in published_remark("genai-bench", 60, 0)
    assert published_remark("csv", 60, 0) == ""
    assert summarize([result(1, "1", "1")], data_set="genai-bench").published_tau == ()


def test_what_must_be_known_is_said_beside_the_numbers() -> None:
    assert "which one" in published_remark("genai-bench", 1069, 0)
    assert max(each.value for each in PUBLISHED["mj-bench-video", "tau"]) < 0.884


def test_what_a_constant_answer_scores_is_the_baseline_of_the_same_report() -> None:
    people = ["0"] * 959 + ["1"] * 72 + ["2"] * 46
    rows = [
        *(result(n, label, "0") for n, label in enumerate(people)),
        *(left_out(n) for n in range(1077, 1085)),
    ]
    summary = summarize(rows, data_set="mj-bench-video")
    assert summary.published_tau, "it is the whole set"
    assert (
        f"a tau of {share(best_baseline(summary.agreement[0]).tau)} on the 1,077 rows that count"
        in summary.published_remark
    )
    assert (
        f"({share(959 / 1085)} with those that were hard to judge counted as wrong)"
        in summary.published_remark
    )
