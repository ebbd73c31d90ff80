"""`evaluate` as a person calls it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.support.scripted_runs import answer, made_pairs, made_result, write_table
from tests.support.faulty_server import says, serving
from tests.support.waiting import until
from tests.test_cli import call
from vrthinker_core import BadInput, ScriptedBackend, evaluate as evaluate_in_python
from vrthinker_core.commands import evaluation_commands
from vrthinker_core.commands.terminal import ProgressCounts, pair_progress
from vrthinker_core.evaluation.summary import Summary
from vrthinker_core.results import result as stored
from vrthinker_core.results.result import RESULTS, final_results, read_run
from vrthinker_core.types import StopReason

ROOT = Path(__file__).resolve().parents[2]


class Evaluate:
    """Calls the command in this process."""

    def __init__(self, folder: Path) -> None:
        self.script, self.out = folder / "script.jsonl", folder / "out"
        self.script.write_text(json.dumps({"reply": answer("whatever")}))

    def __call__(self, *arguments: object, judge: str = "") -> tuple[int, str, str]:
        options = ["--judge", judge or f"scripted:{self.script}", "--out", self.out]
        return call("evaluate", *arguments, *options)


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    return Evaluate(tmp_path)


def test_each_row_has_its_end_and_a_second_call_resumes(evaluate: Evaluate, tmp_path: Path) -> None:
    table = write_table(tmp_path / "set", 4, broken=[2])
    status, printed, told = evaluate("csv", table, "--max-turns", 2)
    assert (status, told.strip()) == (0, "Row 2: There is no file gone.mp4.")
    assert printed.startswith("3 pairs with a verdict, 0 without, 1 failed, 0 left out. ")
    assert str(evaluate.out) in printed
    status, again, told = evaluate("csv", table, "--max-turns", 2)
    assert (status, again, told.count("\n")) == (2, "", 1)
    assert told.startswith(f"{evaluate.out} holds this evaluation already: go on with --resume")
    status, printed_again, told = evaluate("csv", table, "--max-turns", 2, "--resume")
    assert (status, told) == (0, "")
    assert printed_again == printed
    assert read_run(evaluate.out).settings.max_turns == 2


def test_a_judge_in_a_file_is_the_same_from_every_folder(
    evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_table(tmp_path / "set", 2)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "script.jsonl").write_text(json.dumps({"reply": answer("other")}))
    monkeypatch.chdir(tmp_path)
    assert evaluate("csv", table, judge="scripted:script.jsonl")[0] == 0
    monkeypatch.chdir(tmp_path / "other")
    status, _, told = evaluate("csv", table, "--resume", judge="scripted:script.jsonl")
    assert status == 2
    assert f"holds another evaluation, with the judge scripted:{evaluate.script}: " in told
    assert evaluate("csv", table, "--resume", judge="scripted:../script.jsonl")[0] == 0
    monkeypatch.chdir(tmp_path)  # In a folder of an earlier version its path was relative
    stored.write_run(evaluate.out, replace(read_run(evaluate.out), judge="scripted:script.jsonl"))
    assert evaluate("csv", table, "--resume", judge="scripted:script.jsonl")[0] == 0


def test_in_python_folder_and_figures_are_the_same(evaluate: Evaluate, tmp_path: Path) -> None:
    table, out, rows = write_table(tmp_path / "set", 3, broken=[2]), tmp_path / "python", []
    judge = ScriptedBackend([answer("whatever")])
    assert evaluate("csv", table)[0] == 0

    def run(**options: Any) -> Summary:
        options |= {"out": out, "on_result": lambda each: rows.append(each.pair.row)}
        return evaluate_in_python("csv", table, judge, **options)

    found = run()
    figures = json.loads(json.dumps(asdict(found)))
    told = json.loads((evaluate.out / "report.json").read_text("utf-8"))["summary"]
    del figures["costs"], told["costs"]  # They have times
    assert figures == told
    files = [{path.name for path in folder.rglob("*")} for folder in (evaluate.out, out)]
    assert files[0] == files[1]
    assert run(resume=True).counts == found.counts
    assert sorted(rows) == [1, 2, 3], "each once"
    for sentence, options in (("already", {}), ("the name of the judge", {"engine": "ray"})):
        with pytest.raises(BadInput, match=sentence):
            run(**options)


def test_no_judge_is_status_2_and_no_verdict_is_3(evaluate: Evaluate, tmp_path: Path) -> None:
    table = write_table(tmp_path / "set", 2)
    evaluate.script.write_text("")
    assert evaluate("csv", table)[0] == 2
    evaluate.script.write_text(json.dumps({"reply": "I cannot say."}))
    status, printed, _ = evaluate("csv", table, "--resume")
    assert status == 3
    assert printed.startswith("0 pairs with a verdict, 2 without, 0 failed, 0 left out. Results: ")


def test_a_row_may_be_mended_and_no_other_may_change(evaluate: Evaluate, tmp_path: Path) -> None:
    table = write_table(tmp_path / "set", 3)
    good = table.read_text()
    table.write_text(good.replace("Prompt 2,2,0", "Prompt 2,2,huh"))
    assert evaluate("csv", table)[0] == 0
    table.write_text(good.replace("Prompt 3,0,1", "Prompt 3,0,2"))
    status, _, told = evaluate("csv", table, "--resume")
    assert (status, "as it was before its rows changed: " in told) == (2, True)
    table.write_text(good)
    for _ in range(2):
        status, _, told = evaluate("csv", table, "--resume")
        assert (status, told) == (0, "")
    results = stored.read_results(evaluate.out / RESULTS)
    assert sorted(each.pair.row for each in results if each.judged) == [1, 2, 3], "each once"


def test_a_larger_limit_goes_on_with_the_rest(evaluate: Evaluate, tmp_path: Path) -> None:
    table = write_table(tmp_path / "set", 6)
    assert evaluate("csv", table, "--limit", 2)[0] == 0
    first = {result.pair.id for result in final_results(evaluate.out / RESULTS)}
    assert evaluate("csv", table, "--limit", 5, "--resume")[0] == 0
    then = [result.pair.id for result in final_results(evaluate.out / RESULTS)]
    assert (len(first), len(then)) == (2, 5)
    assert first < set(then)
    assert [start.limit for start in read_run(evaluate.out).starts] == [2, 5]


def test_an_estimate_counts_for_the_run(evaluate: Evaluate, tmp_path: Path) -> None:
    table = write_table(tmp_path / "set", 8, broken=[3])
    status, printed, _ = evaluate("csv", table, "--estimate", "--sample", 3)
    assert status == 0
    assert re.search(r"\n  pairs +7\n  turns +7 \(7 to 7\)\n", printed)
    kept = (evaluate.out / RESULTS).read_bytes()
    assert evaluate("csv", table, "--estimate", "--sample", 3, "--resume")[0] == 0
    assert (evaluate.out / RESULTS).read_bytes() == kept
    assert evaluate("csv", table, "--resume")[0] == 0
    assert _lines(evaluate.out / RESULTS) == 8, "no pair of the sample was judged again"


def test_an_estimate_says_when_this_process_slows_its_server_down(
    evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, judge = write_table(tmp_path / "set", 4), f"scripted:{evaluate.script}"
    monkeypatch.setattr(evaluation_commands, "CLIENT_LIMIT", 0.0)
    assert "--engine ray" not in evaluate("csv", table, "--estimate", judge=judge)[1]
    evaluate.out = tmp_path / "served"
    with serving(says(answer("x"))) as server:
        status, printed, _ = evaluate("csv", table, "--estimate", judge=f"server:{server.url}")
    assert status == 0
    assert re.search(r"This process was busy .* --engine ray", printed)
    assert {body["stream"] for body in server.bodies} == {False}, "nobody reads along"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("another .", "There is no data set 'another'. Choose one of videogen-reward, "),
        ("csv nowhere.csv", "There is no file or folder nowhere.csv."),
        ("csv TABLE --limit 0", "--limit 0 takes no pair"),
        ("csv TABLE --concurrency 0", "concurrency=0 is no number of pairs"),
        ("csv TABLE --estimate --sample -1", "--sample -1 judges nothing"),
        ("csv TABLE --sample 3", "--sample 3 needs --estimate"),
        ("csv TABLE --engine slurm", "There is no engine 'slurm'. Choose local, "),
        ("videogen-reward TABLE", "pairs.csv has no column path_A. It needs path_A, path_B, "),
    ],
)
def test_bad_input_is_one_sentence(
    evaluate: Evaluate, tmp_path: Path, arguments: str, sentence: str
) -> None:
    table = write_table(tmp_path / "set", 1)
    status, printed, told = evaluate(*arguments.replace("TABLE", str(table)).split())
    assert (status, printed) == (2, "")
    assert told.startswith(sentence)
    assert told.count("\n") == 1
    assert not evaluate.out.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="there a signal ends a process at once")
def test_ctrl_c_ends_it_with_all_that_was_judged(evaluate: Evaluate, tmp_path: Path) -> None:
    table = write_table(tmp_path / "set", 12)
    reply = {"reply": answer("slow"), "pause": 0.02}
    evaluate.script.write_text(json.dumps(reply))
    options = ("--judge", f"scripted:{evaluate.script}", "--out", evaluate.out, "--concurrency", 2)
    command = [sys.executable, "-m", "vrthinker_core", "evaluate", "csv", table, *options]
    with subprocess.Popen(
        [*map(str, command)], cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        until(lambda: process.poll() is not None or _lines(evaluate.out / RESULTS))
        process.send_signal(signal.SIGINT)
        printed, told = process.communicate(timeout=120)
    assert (process.returncode, printed) == (130, ""), told
    kept = (evaluate.out / RESULTS).read_bytes()
    assert 1 <= (found := kept.count(b"\n")) < 12
    assert told.endswith(f"Stopped; {found} of 12 pairs have a result. Go on with --resume.\n")
    assert all(result.judged for result in final_results(evaluate.out / RESULTS))
    evaluate.script.write_text(json.dumps(reply | {"pause": 0}))
    assert evaluate("csv", table, "--resume")[0] == 0
    assert (evaluate.out / RESULTS).read_bytes().startswith(kept)
    assert len(final_results(evaluate.out / RESULTS)) == _lines(evaluate.out / RESULTS) == 12


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_progress_counts_rate_time_left_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = made_pairs(8)
    counts = ProgressCounts(total=10, done=2, begun=time.monotonic() - 8)
    with pair_progress(counts) as add:
        for pair in pairs[:4]:
            add(made_result(pair))
        add(stored.broken_row(replace(pairs[4], fault="There is no file."), "judge"))
        add(stored.broken_row(replace(pairs[5], left_out="Hard to judge."), "judge"))
        gone = replace(made_result(pairs[6]), error="The server is gone.", fault="BackendFailed")
        add(replace(gone, stop=StopReason.FAILED))
    assert (counts.done, counts.judged, counts.failed) == (9, 5, 2)
    assert re.fullmatch(r"9 of 10 pairs, 1\.\d s each, \d s left, 2 failed", counts.line)
    assert capsys.readouterr().err == "Row 5: There is no file.\nRow 7: The server is gone.\n"


def test_of_many_failures_the_first_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    counts = ProgressCounts(total=50)
    with pair_progress(counts) as add:
        for pair in made_pairs(50):
            add(stored.broken_row(replace(pair, fault="There is no file."), "judge"))
    lines = capsys.readouterr().err.splitlines()
    assert (counts.failed, len(lines)) == (50, 21)
    assert lines[-1] == "Further failures are only counted; the table names each."
