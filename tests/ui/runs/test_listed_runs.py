"""The folder that is listed: an evaluation or traces, which may grow, be damaged, or not be there."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.ui.runs.drawn_results import kinds, outside, read_all, result, write_results
from tests.ui.support.handmade_runs import WHOLE, both_orders, three_turns
from vrthinker_core.errors import TraceError
from vrthinker_core.results.result import RESULTS, result_of, to_line
from vrthinker_core.results.trace_files import (
    CHECKPOINTS,
    CONFIG,
    LABELS,
    RESULT,
    STATE,
    add_labels,
)
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Preference, Verdict, Vote
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.types.wording import (
    DEMO_RUN,
    NO_RELIABLE_WINNER,
    NOT_SWAP_TESTED,
    OUTSIDE_SCOPE,
)
from vrthinker_core.ui.hidden_view import COOKIE, ON
from vrthinker_core.ui.link_preview import LinkPreviews
from vrthinker_core.ui.listed_runs import ListedRuns
from vrthinker_core.ui.run_store import RunStore
from vrthinker_core.ui.runs_routes import RunsRoutes
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.ui.tiles import Examples


def client(runs: ListedRuns) -> TestClient:
    return TestClient(Starlette(routes=RunsRoutes(runs).routes()))


def numbers(runs: ListedRuns) -> list[int]:
    return sorted(run.row for run in runs.runs())


def read_on(runs: ListedRuns) -> list[int]:
    """The rows once the folder has been looked through again."""
    deadline = time.monotonic() + 30
    before = runs.runs()
    while runs.runs() == before and time.monotonic() < deadline:
        runs.refresh(patience=30)
        time.sleep(0.01)
    return numbers(runs)


def test_an_evaluation_that_goes_on_is_read_on(tmp_path: Path) -> None:
    runs = read_all(write_results(tmp_path, kinds()[:2]))
    assert numbers(runs) == [1, 2]
    third, fourth = to_line(kinds()[2]), to_line(kinds()[3])
    with (tmp_path / RESULTS).open("ab") as file:
        file.write(third + fourth[:40])
        file.flush()
        assert read_on(runs) == [1, 2, 3], "a line that is not whole is left for later"
        file.write(fourth[40:])
    assert read_on(runs) == [1, 2, 3, 4]


def test_another_evaluation_in_its_place_is_read_from_its_start(tmp_path: Path) -> None:
    runs = read_all(write_results(tmp_path, kinds()))
    (tmp_path / "new").write_bytes(to_line(result(31)))
    (tmp_path / "new").replace(tmp_path / RESULTS)
    assert read_on(runs) == [31]


def test_broken_lines_are_rows_with_a_sentence(tmp_path: Path) -> None:
    path = write_results(tmp_path, kinds()[:1]) / RESULTS
    with path.open("ab") as file:
        file.write(b"{broken\n" + b'"' + b"x" * 2**21 + b"\n" + b"\xff\xfe\n" + to_line(kinds()[1]))
    runs = read_all(tmp_path)
    assert numbers(runs) == [1, 2, 2, 3, 4], "the broken ones by their lines"
    errors = [run.error for run in runs.runs() if run.error]
    assert [error.split(" is ")[0] for error in errors] == [
        f"Line {line} of {RESULTS}" for line in (2, 3, 4)
    ]
    assert runs.said.startswith("3 of 5 lines")
    assert client(runs).get("/evaluation?only=failed").json()["matching"] == 3


def test_a_file_that_is_something_else_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_bytes(os.urandom(3000).replace(b"\n", b"x") + b"\n" * 1000)
    runs = read_all(tmp_path)
    assert "holds no result of an evaluation" in runs.said
    assert len(runs.runs()) <= 200


def test_a_missing_and_an_empty_folder_say_so_and_are_read_once_they_are_there(
    tmp_path: Path,
) -> None:
    runs = read_all(tmp_path / "out")
    assert (
        runs.said
        == f"There is no folder {tmp_path / 'out'}: name the --out folder of an evaluation, or a folder of traces."
    )
    (tmp_path / "out").mkdir()
    assert "holds no results.jsonl and no trace yet" in read_all(tmp_path / "out").said
    (tmp_path / "training").mkdir()
    for file in (CONFIG, STATE):  # as one begins
        (tmp_path / "training" / file).write_text("{}")
    assert "no trace yet" in read_all(tmp_path / "training").said
    write_results(tmp_path / "out", kinds()[:1])
    assert read_on(runs) == [1]
    assert runs.said == ""


def test_a_folder_of_traces_is_listed_with_its_votes_as_labels(tmp_path: Path) -> None:
    (tmp_path / "step 2").mkdir()
    vote = Vote(datetime(2026, 11, 22, tzinfo=UTC), Verdict(OA=Preference.SECOND))
    (tmp_path / "step 2" / "b.json").write_bytes(to_json(replace(three_turns(), vote=vote)))
    (tmp_path / "a.json").write_bytes(to_json(three_turns(prompt="A cat.")))
    (tmp_path / "c.json").write_text("{}")
    runs = read_all(tmp_path)
    page = client(runs).get("/evaluation").json()
    by_file = {run["source"]: run for run in page["runs"]}
    assert list(by_file) == ["a.json", "c.json", "step 2/b.json"]
    assert by_file["step 2/b.json"]["people"] == [None, None, None, 2]
    assert by_file["a.json"]["prompt"] == "A cat."
    assert "not a VR-Thinker trace" in by_file["c.json"]["error"]
    assert page["counts"]["overall"] == 1
    (tmp_path / "a.json").unlink()
    (tmp_path / "d.json").write_bytes(to_json(three_turns()))
    assert read_on(runs) == [2, 3, 4]


@pytest.mark.parametrize("opened", [".", "rollouts"])
def test_a_folder_of_a_training_is_listed_with_its_rollouts_alone(
    tmp_path: Path, opened: str
) -> None:
    """Whatever else a training keeps as JSON is no trace; a broken trace is a row all the same."""
    others = (CONFIG, STATE, f"{RESULT}/tokenizer.json", f"{CHECKPOINTS}/model/config.json")
    for file in (*others, "rollouts/step-1.json", "rollouts/step-2.json"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("{}")
    (tmp_path / "rollouts" / "step-1.json").write_bytes(to_json(three_turns()))
    runs = read_all(tmp_path / opened)
    assert [(run.row, Path(run.source).name, bool(run.error)) for run in runs.runs()] == [
        (1, "step-1.json", False),
        (2, "step-2.json", True),
    ]


def test_labels_beside_traces_are_those_of_the_data_set(tmp_path: Path) -> None:
    """They come before a vote where right and wrong are told apart; a broken line, and a file of anything else, is passed over."""
    wrong, vote = (
        replace(WHOLE, OA=Preference.SECOND),
        Vote(datetime(2026, 11, 22, tzinfo=UTC), WHOLE),
    )
    for file, trace in (
        ("right.json", three_turns()),
        ("wrong.json", replace(three_turns(), vote=vote)),
        ("none.json", three_turns()),
    ):
        (tmp_path / file).write_bytes(to_json(trace))
    add_labels(tmp_path, {"right.json": WHOLE, "none.json": Verdict()})
    with (tmp_path / LABELS).open("ab") as file:
        file.write(b"{broken\n")
    add_labels(tmp_path, {"wrong.json": WHOLE})
    add_labels(tmp_path, {"wrong.json": wrong})
    page = client(read_all(tmp_path)).get("/evaluation?sort=disagreement").json()
    rows = {run["source"]: (run["data_set"], run["people"]) for run in page["runs"]}
    nobody, known = [None] * 4, [WHOLE.TA, WHOLE.MQ, WHOLE.VQ]
    assert rows == {
        "wrong.json": ([*known, 2], [*known, 1]),
        "none.json": ([], nobody),
        "right.json": ([*known, 1], nobody),
    }
    assert next(iter(rows)) == "wrong.json"
    assert page["counts"]["overall"] == 1


def test_only_rows_of_the_list_open(tmp_path: Path) -> None:
    runs = read_all(
        write_results(
            tmp_path / "out",
            [*kinds(), result(8, trace="../secret.json"), result(9, id="../../etc")],
        )
    )
    (tmp_path / "secret.json").write_bytes(to_json(three_turns()))
    asked = client(runs)
    names = {run["row"]: run["name"] for run in asked.get("/evaluation").json()["runs"]}
    assert from_json(asked.get(f"/evaluation/{names[1]}/trace.json").content) == three_turns()
    for name in ("row-../secret", "..%2fsecret.json", "row-0", names[7], names[8]):
        assert asked.get(f"/evaluation/{name}/trace.json").status_code == 404
    assert names[9].removeprefix("row-").isalnum()
    with pytest.raises(TraceError, match="outside"):
        runs.trace(next(run for run in runs.runs() if run.row == 8))
    (tmp_path / "out" / kinds()[0].trace).unlink()
    assert "is gone" in asked.get(f"/evaluation/{names[1]}/trace.json").text


def test_whoever_votes_first_is_told_no_label(tmp_path: Path) -> None:
    asked = client(read_all(write_results(tmp_path, kinds())))
    asked.cookies.set(COOKIE, ON)
    page = asked.get("/evaluation").json()
    one = asked.get(f"/evaluation/{page['runs'][0]['name']}").json()["run"]
    assert "Vote first" in page["said"]
    for run in (*page["runs"], one):
        assert (run["people"], run["data_set"], run["judge"], run["confidence"], run["order"]) == (
            [],
            [],
            [],
            None,
            "",
        )


def test_a_row_is_given_as_the_page_draws_it_with_its_pictures(tmp_path: Path) -> None:
    """And to whoever votes first without a word of the judge."""
    asked = client(read_all(write_results(tmp_path, kinds())))
    name, unjudged = (run["name"] for run in asked.get("/evaluation").json()["runs"][::6])
    whole = asked.get(f"/evaluation/{name}/view.json").json()
    assert whole["run"] == asked.get(f"/evaluation/{name}").json()["run"]
    assert [len(turn["tiles"]) for turn in whole["view"]["turns"]] == [4, 4, 6]
    assert "What stood out in turn 1." in str(whole["view"])
    assert whole["view"]["turns"][0]["tiles"][0]["halves"][0]["src"].startswith(
        "data:image/jpeg;base64,/9j/"
    )
    asked.cookies.set(COOKIE, ON)
    hidden = asked.get(f"/evaluation/{name}/view.json").json()
    assert hidden["run"]["judge"] == []
    assert "What stood out" not in str(hidden["view"])
    assert [len(turn["tiles"]) for turn in hidden["view"]["turns"]] == [4, 4, 6]
    assert asked.get(f"/evaluation/{unjudged}/view.json").text == "There is no file a.mp4."
    assert asked.get("/evaluation/row-0/view.json").status_code == 404


@pytest.mark.parametrize("evaluated", [True, False])
def test_a_run_outside_the_judges_scope_is_a_demo_without_a_label(
    tmp_path: Path, evaluated: bool
) -> None:
    if evaluated:
        write_results(tmp_path, [result_of(result(1, labels=WHOLE).pair, outside(), "")])
    else:
        (tmp_path / "run.json").write_bytes(to_json(outside()))
        add_labels(tmp_path, {"run.json": WHOLE})
    page = client(read_all(tmp_path)).get("/evaluation?only=failed").json()
    (row,) = page["runs"]
    assert (row["judge"], row["flips"], row["probability"], row["ending"]) == (
        [],
        [],
        None,
        DEMO_RUN,
    )
    assert row["error"].startswith(OUTSIDE_SCOPE)
    assert page["counts"] == {"overall": 0, "any": 0, "failed": 1, "unsure": 0, "flips": 0}
    assert not page["unchecked"]


def test_a_row_that_flips_is_drawn_with_that_headline_and_without_its_second_run(
    tmp_path: Path,
) -> None:
    traces = {
        "flips": both_orders(swap_verdict(replace(WHOLE, OA=Preference.SECOND))),
        "stays": both_orders(swap_verdict(WHOLE)),
        "once": three_turns(),
    }
    for name, trace in traces.items():
        (tmp_path / f"{name}.json").write_bytes(to_json(trace))
    asked = client(read_all(tmp_path))
    rows = {run["source"]: run for run in asked.get("/evaluation").json()["runs"]}
    views = {
        name: asked.get(f"/evaluation/{rows[f'{name}.json']['name']}/view.json").json()["view"]
        for name in traces
    }
    assert [rows[f"{name}.json"]["judge"][-1] for name in traces] == [None, 1, 1]
    assert [view["verdict"]["headline"] == NO_RELIABLE_WINNER for view in views.values()] == [
        True,
        False,
        False,
    ]
    assert [view["verdict"]["note"] for view in views.values()] == ["", "", NOT_SWAP_TESTED]
    assert all(view["order"] is None and len(view["turns"]) == 3 for view in views.values())


def test_videos_are_found_by_what_the_results_or_traces_name(tmp_path: Path) -> None:
    """Relative paths mean the folder or one above it; a trace names no folder, so that its videos stand beside or above it."""
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
    (tmp_path / "out" / "deep" / "t.json").write_bytes(to_json(three_turns()))
    (tmp_path / "out" / RESULTS).unlink()
    traces = read_all(tmp_path / "out")
    deep = next(run for run in traces.runs() if run.source == "deep/t.json")
    assert traces.videos(deep) == [files["out/deep/b.mp4"]], "a.mp4 lies outside the folder"


def test_a_link_to_a_row_has_its_verdict_as_preview(tmp_path: Path) -> None:
    runs = read_all(write_results(tmp_path / "out", kinds()))
    previews = LinkPreviews(Examples(tmp_path), SharedTraces(RunStore(tmp_path / "shared")), runs)
    name, unjudged = (next(run.name for run in runs.runs() if run.row == row) for row in (1, 7))
    assert previews.find(name).jpeg
    assert not previews.find(unjudged).jpeg
    (tmp_path / "again").mkdir()
    results = write_results(
        tmp_path / "again",
        [replace(result(1), trace="", verdict=None, error="The judge was gone.")],
    )
    again = read_all(results)
    previews = LinkPreviews(Examples(tmp_path), SharedTraces(RunStore(tmp_path / "shared")), again)
    (name,) = [run.name for run in again.runs()]
    assert not previews.find(name).jpeg
    write_results(results, [result(1)])
    read_on(again)
    assert previews.find(name).jpeg, "it was judged again"


def test_a_refused_choice_is_a_sentence(tmp_path: Path) -> None:
    answer = client(read_all(write_results(tmp_path, kinds()))).get("/evaluation?only=nothing")
    assert (answer.status_code, answer.text.count(".")) == (400, 2)
