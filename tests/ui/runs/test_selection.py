"""What of the list is shown: filters, search, order, pages."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tests.ui.runs.drawn_results import kinds, result
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict
from vrthinker_core.ui.listed_run import ListedRun, listed_run, without_labels
from vrthinker_core.ui.runs_routes import PAGE_ROWS, neighbours_json, page_json, read_choice, select
from vrthinker_core.ui.words import FILTERS, SORTS

EACH = {"overall": [2], "any": [2, 3], "failed": [7], "unsure": [4, 5], "flips": [6]}
"""The rows that each filter leaves, of one row of each kind."""


@pytest.fixture
def rows() -> list[ListedRun]:
    return [listed_run(each) for each in kinds()]


def shown(runs: list[ListedRun], **query: str) -> list[int]:
    return [run.row for run in select(runs, read_choice(query))]


@pytest.mark.parametrize("kind", FILTERS)
def test_a_filter_leaves_its_rows_and_is_counted(rows: list[ListedRun], kind: str) -> None:
    assert shown(rows, only=kind) == EACH[kind]
    assert page_json(rows, read_choice({}))["counts"][kind] == len(EACH[kind])


def test_filters_and_search_together_leave_what_all_of_them_leave(rows: list[ListedRun]) -> None:
    assert shown(rows, only="overall,any") == [2]
    assert shown(rows, only="overall,flips") == []
    assert shown(rows, search="  RAINS ") == [7]
    counts = page_json(rows, read_choice({"only": "any"}))["counts"]
    assert counts == {"overall": 1, "any": 2, "failed": 0, "unsure": 0, "flips": 0}


def test_a_missing_label_is_no_disagreement() -> None:
    nobody = listed_run(result(1, labels=Verdict()))
    silent = listed_run(result(2, verdict=Verdict(TA=Preference.FIRST)))
    assert shown([nobody, silent], only="any") == []


def test_a_run_that_ended_without_a_verdict_has_failed() -> None:
    assert shown([listed_run(result(1, verdict=None))], only="failed") == [1]


def test_a_label_that_flips_is_no_winner_and_is_compared_all_the_same() -> None:
    """The first row flips in one dimension and is a tie in one order in another; scores keep the first label."""
    flipped = Verdict(
        TA=Preference.SECOND, MQ=Preference.FIRST, VQ=Preference.SECOND, OA=Preference.SECOND
    )
    sure = {Dimension.OA: (0.1, 0.7, 0.2)}
    rows = [
        listed_run(result(1, swapped=flipped, labels=flipped, probabilities=sure)),
        listed_run(result(2, probabilities=sure)),
    ]
    first, second = page_json(rows, read_choice({}))["runs"]
    assert (first["judge"], first["flips"], first["probability"]) == (
        [None, 0, 2, None],
        ["TA", "OA"],
        None,
    )
    assert (second["judge"], second["flips"], second["probability"]) == ([1, 0, 2, 1], [], 0.7)
    assert shown(rows, only="overall,any,flips") == [1]
    assert without_labels(first)["flips"] == []


@pytest.mark.parametrize(
    ("probability", "told"), [(0.2, 0.2), (0.8999, 0.9), (0.9, None), (0.99, None), (1.0, None)]
)
def test_a_probability_near_to_certain_is_not_told(probability: float, told: float | None) -> None:
    rows = [
        listed_run(result(1, probabilities={Dimension.OA: (1 - probability, probability, 0.0)}))
    ]
    assert page_json(rows, read_choice({}))["runs"][0]["probability"] == told
    assert shown([*rows, listed_run(result(2, confidence=5))], sort="unsure") == [1, 2], (
        "it counts in the order"
    )


@pytest.mark.parametrize(
    ("rows", "unchecked"), [([3, 4], True), ([3, 1], False), ([7], False), ([], False)]
)
def test_verdicts_that_were_never_tested_in_both_orders_are_told_as_that(
    rows: list[int], unchecked: bool
) -> None:
    found = [listed_run(each) for each in kinds() if each.pair.row in rows]
    assert page_json(found, read_choice({}))["unchecked"] is unchecked


def test_orders(rows: list[ListedRun]) -> None:
    assert shown(rows, sort="row") == [1, 2, 3, 4, 5, 6, 7]
    assert shown(rows, sort="unsure") == [4, 5, 3, 6, 1, 2, 7], (
        "0.4, 0.55, 0.8, 0.8, 1, 1, and nothing said"
    )
    assert shown(rows, sort="disagreement")[:2] == [2, 3]


@pytest.mark.parametrize("sort", SORTS)
def test_no_order_depends_on_that_of_the_file(rows: list[ListedRun], sort: str) -> None:
    mixed = rows[:]
    random.Random(5).shuffle(mixed)
    assert shown(mixed, sort=sort) == shown(rows, sort=sort)


def test_pages_hold_every_row_once() -> None:
    runs = [listed_run(result(row)) for row in range(1, 2 * PAGE_ROWS + 4)]
    pages = [page_json(runs, read_choice({"page": str(page)})) for page in (1, 2, 3, 99)]
    assert [run["row"] for page in pages[:3] for run in page["runs"]] == list(
        range(1, 2 * PAGE_ROWS + 4)
    )
    assert pages[3] == pages[2], "beyond the last page stands the last one"
    assert [page["pages"] for page in pages] == [3, 3, 3, 3]


def test_a_page_is_small_whatever_stands_in_it() -> None:
    """In bytes as they are sent; a character takes four at most, one that is not printable is none."""
    base = result(
        1, prompt="🎞" * 5000, error='"\\\x01🎞' * 500, stop=StopReason.TURN_LIMIT, provisional=True
    )
    pair = replace(base.pair, first_generator="🎞" * 500, second_generator="\x00" * 500)
    runs = [
        listed_run(replace(base, pair=replace(pair, id=f"{row:064x}", row=10**9 + row)))
        for row in range(100)
    ]
    assert len(json.dumps(page_json(runs, read_choice({})), ensure_ascii=False).encode()) < 100_000


@pytest.mark.parametrize(
    "query",
    [{"only": "all"}, {"sort": "prompt"}, {"page": "0"}, {"page": "-1"}, {"page": "9" * 10}],
)
def test_what_cannot_be_chosen_is_refused_with_a_sentence(query: dict[str, str]) -> None:
    with pytest.raises(BadInput, match=r"\.$"):
        read_choice(query)


def test_neighbours_follow_the_choice_and_pass_over_what_cannot_be_opened(
    rows: list[ListedRun],
) -> None:
    def around(row: int, **query: str) -> tuple[str, str, int, int]:
        found = neighbours_json(rows, rows[row - 1], read_choice(query))
        return found["previous"][-1:], found["next"][-1:], found["place"], found["matching"]

    assert around(2) == ("1", "3", 2, 7)
    assert around(6) == ("5", "", 6, 7), "the last row has no trace"
    assert around(3, only="any") == ("2", "", 2, 2)
    assert around(1, only="any") == ("", "2", 1, 7), (
        "a row that the filters leave out stands in the whole list"
    )


def test_no_text_has_more_than_one_line_or_an_invisible_character() -> None:
    run = listed_run(result(1, prompt="a\u202eb\x00\n<b>c</b>\ud800", error="first\nsecond"))
    assert run.prompt == "a b <b>c</b>?"
    assert run.error == "first second"
