"""The list of `--runs`: a folder that may grow, be damaged or be missing; what is shown of it."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.support.waiting import until_equal
from tests.ui.support.drawn_results import kinds, outside, read_all, result, write_results
from tests.ui.support.handmade_runs import WHOLE, three_turns
from vrthinker_core.errors import TraceError
from vrthinker_core.results import trace_files
from vrthinker_core.results.result import RESULTS, PairResult, result_of, to_line
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict, Vote, wording
from vrthinker_core.ui import runs_tab, words
from vrthinker_core.ui.runs_tab import ListedRun, ListedRuns, listed_run, read_choice, runs_routes

OTHER = replace(WHOLE, OA=Preference.SECOND)
WHOLE_LABELS = [WHOLE.TA, WHOLE.MQ, WHOLE.VQ]


def client(runs: ListedRuns, **cookies: str) -> TestClient:
    app = Starlette(routes=runs_routes(runs), exception_handlers=runs_tab.REFUSALS)
    return TestClient(app, cookies=cookies)


def page(runs: ListedRuns, query: str = "") -> Any:
    return client(runs).get(f"/evaluation{query}").json()


def read_on(runs: ListedRuns, expected: list[int]) -> None:
    """Until the folder has been looked through again, and has these rows."""
    rows = lambda: runs.refresh(30) and sorted(run.row for run in runs.runs())  # noqa: E731
    until_equal(rows, expected)


def write_trace(path: Path, **changes: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_json(replace(three_turns(), **changes)))


def test_an_evaluation_is_read_on_and_another_one_from_its_start(tmp_path: Path) -> None:
    runs = read_all(write_results(tmp_path, kinds()[:2]))
    third, fourth = to_line(kinds()[2]), to_line(kinds()[3])
    with (tmp_path / RESULTS).open("ab") as file:
        file.write(third + fourth[:40])  # a line that is not whole is left for later
        file.flush()
        read_on(runs, [1, 2, 3])
        file.write(fourth[40:])
    read_on(runs, [1, 2, 3, 4])
    (tmp_path / "new").write_bytes(to_line(result(31)))
    (tmp_path / "new").replace(tmp_path / RESULTS)
    read_on(runs, [31])


def test_broken_lines_are_rows_with_a_sentence(tmp_path: Path) -> None:
    path = write_results(tmp_path, kinds()[:1]) / RESULTS
    with path.open("ab") as file:
        file.write(b"{broken\n" + b'"' + b"x" * 2**21 + b"\n" + b"\xff\xfe\n" + to_line(kinds()[1]))
    runs = read_all(tmp_path)
    assert sorted(run.row for run in runs.runs()) == [1, 2, 2, 3, 4], "broken ones by their lines"
    errors = [error.split(" is ")[0] for run in runs.runs() if (error := run.told["error"])]
    assert errors == [f"Line {line} of {RESULTS}" for line in (2, 3, 4)]
    assert runs.said.startswith("3 of 5 lines")
    assert page(runs, "?only=failed")["matching"] == 3


def test_a_folder_that_is_missing_empty_or_something_else_is_one_sentence(tmp_path: Path) -> None:
    folder, empty = tmp_path / "out", "holds no results.jsonl and no trace yet"
    runs = read_all(folder)
    assert "There is no folder" in runs.said
    folder.mkdir()
    assert empty in read_all(folder).said
    for file in (trace_files.CONFIG, trace_files.STATE):  # as a training begins
        (folder / file).write_text("{}")
    assert empty in read_all(folder).said
    write_results(folder, kinds()[:1])
    read_on(runs, [1])
    assert runs.said == ""
    (folder / RESULTS).write_bytes(os.urandom(3000).replace(b"\n", b"x") + b"\n" * 1000)
    noise = read_all(folder)
    assert "holds no result of an evaluation" in noise.said
    assert len(noise.runs()) <= 200


def test_traces_are_listed_with_votes_or_the_labels_of_a_data_set(tmp_path: Path) -> None:
    """These, not a vote, say what is right; a broken line is passed over, the last one counts."""
    vote, now = Vote(datetime(2026, 11, 22, tzinfo=UTC), WHOLE), [*WHOLE_LABELS, 1]
    write_trace(tmp_path / "right.json")
    write_trace(tmp_path / "none.json")
    write_trace(tmp_path / "wrong.json", vote=vote)
    voted = {"started": three_turns(prompt="A cat.").started, "vote": replace(vote, labels=OTHER)}
    write_trace(tmp_path / "step 2" / "a.json", **voted)
    (tmp_path / "c.json").write_text("{}")
    trace_files.add_labels(tmp_path, {"right.json": WHOLE, "none.json": Verdict()})
    with (tmp_path / trace_files.LABELS).open("ab") as file:
        file.write(b"{broken\n")
    for labels in (WHOLE, OTHER):
        trace_files.add_labels(tmp_path, {"wrong.json": labels})
    runs = read_all(tmp_path)
    found = page(runs, "?sort=disagreement")
    rows = {run["source"]: run for run in found["runs"]}
    assert {name: (row["data_set"], row["people"]) for name, row in rows.items()} == {
        "wrong.json": ([*WHOLE_LABELS, 2], now),
        "none.json": ([], [None] * 4),
        "step 2/a.json": ([], [*WHOLE_LABELS, 2]),
        "right.json": (now, [None] * 4),
        "c.json": ([], [None] * 4),
    }
    assert [*rows][:2] == ["step 2/a.json", "wrong.json"]
    assert (rows["step 2/a.json"]["prompt"], found["counts"]["overall"]) == ("A cat.", 2)
    assert "not a VR-Thinker trace" in rows["c.json"]["error"]
    (tmp_path / "step 2" / "a.json").unlink()
    write_trace(tmp_path / "d.json")
    read_on(runs, [1, 2, 3, 5, 6])


def test_only_rows_of_the_list_open_and_no_path(tmp_path: Path) -> None:
    strange = [result(8, trace="../secret.json"), result(9, id="../../etc")]
    runs = read_all(write_results(tmp_path / "out", [*kinds(), *strange]))
    write_trace(tmp_path / "secret.json")
    asked = client(runs)
    names = {run["row"]: run["name"] for run in page(runs)["runs"]}
    assert from_json(asked.get(f"/evaluation/{names[1]}/trace.json").content) == three_turns()
    votes_first = client(runs, vote_first="on").get(f"/evaluation/{names[1]}/trace.json")
    assert (votes_first.status_code, "labels" in votes_first.text) == (404, True)
    for name in ("row-../secret", "..%2fsecret.json", "row-0", names[7], names[8]):
        for what in ("trace.json", "view.json"):
            assert asked.get(f"/evaluation/{name}/{what}").status_code == 404
    assert names[9].removeprefix("row-").isalnum()
    with pytest.raises(TraceError, match="outside"):
        runs.trace(next(run for run in runs.runs() if run.row == 8))
    (tmp_path / "out" / kinds()[0].trace).unlink()
    assert "is gone" in asked.get(f"/evaluation/{names[1]}/trace.json").text


def test_a_row_is_drawn_whole_but_without_a_label_for_who_votes_first(tmp_path: Path) -> None:
    runs = read_all(write_results(tmp_path, kinds()))
    name, unjudged = (run["name"] for run in page(runs)["runs"][::6])
    row, view = f"/evaluation/{name}", f"/evaluation/{name}/view.json"
    asked, voting = client(runs), client(runs, vote_first="on")
    whole, hidden = (each.get(view).json() for each in (asked, voting))
    assert whole["run"] == asked.get(row).json()["run"]
    assert "What stood out in turn 1." in str(whole["view"])
    assert "What stood out" not in str(hidden["view"])
    pictures = [shown["view"]["turns"][0]["tiles"][0]["halves"] for shown in (whole, hidden)]
    assert pictures[0] == pictures[1]
    assert pictures[0][0]["src"].startswith("data:image/jpeg;base64,/9j/")
    assert asked.get(f"/evaluation/{unjudged}/view.json").text == "There is no file a.mp4."
    listed = voting.get("/evaluation").json()
    assert "Blind" in listed["said"]
    for run in (*listed["runs"], voting.get(row).json()["run"], hidden["run"]):
        labels = run["people"], run["data_set"], run["judge"], run["flips"]
        assert labels == ([], [], [], [])
        assert (run["confidence"], run["probability"], run["order"]) == (None, None, "")


def test_a_run_outside_the_judges_scope_is_a_demo_without_a_label(tmp_path: Path) -> None:
    write_results(tmp_path / "out", [result_of(result(1, labels=WHOLE).pair, outside(), "")])
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "run.json").write_bytes(to_json(outside()))
    trace_files.add_labels(tmp_path / "traces", {"run.json": WHOLE})
    for folder in ("out", "traces"):
        found = page(read_all(tmp_path / folder), "?only=failed")
        (row,) = found["runs"]
        told = row["judge"], row["flips"], row["probability"], row["ending"]
        assert told == ([], [], None, wording.DEMO_RUN)
        assert row["error"].startswith(wording.OUTSIDE_SCOPE)
        counts = {"overall": 0, "any": 0, "failed": 1, "unsure": 0, "flips": 0}
        assert (found["counts"], found["unchecked"]) == (counts, False)


def test_videos_are_found_by_what_the_results_or_traces_name(tmp_path: Path) -> None:
    """Relative paths mean the folder or one above it; a trace's lie beside or above it inside."""
    names = ("pairs/a.mp4", "b.mp4", "inside.mp4", "a.mp4", "out/deep/b.mp4", "other.mp4")
    files = {name: tmp_path / name for name in names}
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    rows = [
        result(1, first="pairs/a.mp4", second="b.mp4"),
        result(2, first=str(files["inside.mp4"]), second="/gone.mp4"),
    ]
    runs = read_all(write_results(tmp_path / "out", rows))
    found = {run.row: runs.videos(run) for run in runs.runs()}
    assert found == {1: [files["pairs/a.mp4"], files["b.mp4"]], 2: [files["inside.mp4"]]}
    write_trace(tmp_path / "out" / "deep" / "t.json")
    (tmp_path / "out" / RESULTS).unlink()
    traces = read_all(tmp_path / "out")
    deep = next(run for run in traces.runs() if run.told["source"] == "deep/t.json")
    assert traces.videos(deep) == [files["out/deep/b.mp4"]], "a.mp4 lies outside the folder"


@pytest.fixture(scope="module")
def rows() -> list[ListedRun]:
    return [listed_run(each) for each in kinds()]


def shown(runs: list[ListedRun], **query: str) -> list[int]:
    return [run.row for run in runs_tab.select(runs, read_choice(query))]


def listed(*results: PairResult, **query: str) -> Any:
    """The page of these rows, as a browser gets it."""
    told = runs_tab.page_json([listed_run(each) for each in results], read_choice(query))
    return json.loads(json.dumps(told))


def test_filters_and_search_leave_what_all_of_them_leave(rows: list[ListedRun]) -> None:
    """Only labels that are there disagree; a run that ended without a verdict has failed."""
    each = {"overall": [2], "any": [2, 3], "failed": [7], "unsure": [4, 5], "flips": [6]}
    assert {kind: shown(rows, only=kind) for kind in each} == each
    assert listed(*kinds())["counts"] == {kind: len(left) for kind, left in each.items()}
    assert shown(rows, only="overall,any") == [2]
    assert shown(rows, only="overall,flips") == []
    assert shown(rows, search="  RAINS ") == [7]
    counts = {"overall": 1, "any": 2, "failed": 0, "unsure": 0, "flips": 0}
    assert listed(*kinds(), only="any")["counts"] == counts
    silent = {"labels": Verdict()}, {"verdict": Verdict(TA=Preference.FIRST)}
    assert not any(listed(*(result(1, **each) for each in silent))["counts"].values())
    stopped = result(1, verdict=None, stop=StopReason.CANCELLED)
    assert listed(result(1, verdict=None), stopped)["counts"]["failed"] == 2


def test_what_a_verdict_is_worth_is_told() -> None:
    """A label that flips is no winner, and compared all the same; doubt is told, and sorted by."""
    first, second = Preference.FIRST, Preference.SECOND
    flipped, sure = Verdict(TA=second, MQ=first, VQ=second, OA=second), (0.1, 0.7, 0.2)
    shares = {"probabilities": {Dimension.OA: sure}}
    rows = result(1, swapped=flipped, labels=flipped, **shares), result(2, **shares)
    found = listed(*rows)["runs"]
    told = [(row["judge"], row["flips"], row["probability"]) for row in found]
    assert told == [([None, 0, 2, None], ["TA", "OA"], None), ([1, 0, 2, 1], [], 0.7)]
    assert listed(*rows, only="overall,any,flips")["matching"] == 1
    for probability, told in ((0.2, 0.2), (0.8999, 0.9), (0.9, None), (1.0, None)):
        shares = {Dimension.OA: (1 - probability, probability, 0.0)}
        rows = result(1, confidence=5), result(2, probabilities=shares)
        found = {row["row"]: row["probability"] for row in listed(*rows, sort="unsure")["runs"]}
        assert found == {2: told, 1: None}
        assert probability == 1 or next(iter(found)) == 2
    for numbers, unchecked in (([3, 4], True), ([3, 1], False), ([7], False), ([], False)):
        tested = (each for each in kinds() if each.pair.row in numbers)
        assert listed(*tested)["unchecked"] is unchecked


def test_orders_do_not_depend_on_that_of_the_file(rows: list[ListedRun]) -> None:
    assert shown(rows, sort="row") == [1, 2, 3, 4, 5, 6, 7]
    assert shown(rows, sort="unsure") == [4, 5, 3, 6, 1, 2, 7]
    assert shown(rows, sort="disagreement")[:2] == [2, 3]
    for sort in words.SORTS:
        assert shown(rows[::-1], sort=sort) == shown(rows, sort=sort)


def test_pages_hold_every_row_once_and_the_last_one_stands_beyond_the_end() -> None:
    whole = range(1, 2 * runs_tab.PAGE_ROWS + 4)
    pages = [listed(*map(result, whole), page=page) for page in ("1", "2", "3", "99")]
    assert [run["row"] for page in pages[:3] for run in page["runs"]] == list(whole)
    assert pages[3] == pages[2]
    assert [page["pages"] for page in pages] == [3, 3, 3, 3]


def test_a_page_is_small_and_each_text_one_line_whatever_stands_in_it() -> None:
    run = listed_run(result(1, prompt="a\u202eb\x00\n<b>c</b>\ud800", error="first\nsecond"))
    assert (run.prompt, run.told["error"]) == ("a b <b>c</b>?", "first second")
    told = {"prompt": "🎞" * 5000, "error": '"\\\x01🎞' * 500}
    base = result(1, **told, stop=StopReason.TURN_LIMIT, provisional=True)
    pair = replace(base.pair, first_generator="🎞" * 500, second_generator="\x00" * 500)
    pairs = [replace(pair, id=f"{row:064x}", row=10**9 + row) for row in range(100)]
    sent = json.dumps(listed(*(replace(base, pair=pair) for pair in pairs)), ensure_ascii=False)
    assert len(sent.encode()) < 100_000


def test_what_cannot_be_chosen_is_refused_with_a_sentence(tmp_path: Path) -> None:
    asked = client(read_all(write_results(tmp_path, kinds()[:1])))
    pages = [f"page={page}" for page in ("0", "-1", "²", "9" * 10)]
    for query in ("only=all", "sort=prompt", *pages):
        answer = asked.get(f"/evaluation?{query}")
        assert (answer.status_code, answer.text[-1]) == (400, ".")


def test_neighbours_follow_the_choice_and_can_be_opened(rows: list[ListedRun]) -> None:
    def around(row: int, **query: str) -> tuple[str, str, int, int]:
        found = runs_tab.neighbours_json(rows, rows[row - 1], read_choice(query))
        return found["previous"][-1:], found["next"][-1:], found["place"], found["matching"]

    assert around(2) == ("1", "3", 2, 7)
    assert around(6) == ("5", "", 6, 7), "the last row has no trace"
    assert around(3, only="any") == ("2", "", 2, 2)
    assert around(1, only="any") == ("", "2", 1, 7), "a row left out stands in the whole list"
