"""`report`: from the folder of an evaluation to its page, and from two folders to a comparison."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.evaluation.support.made_results import simulate
from vrthinker_core import cli
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.results.result import RESULTS, PairResult, to_line
from vrthinker_core.results.run_file import EvaluationRun, write_run
from vrthinker_core.types import Settings


def keep(folder: Path, results: list[PairResult], dataset: str | None = None) -> Path:
    folder.mkdir()
    (folder / RESULTS).write_bytes(b"".join(map(to_line, results)))
    if dataset:
        write_run(
            folder, EvaluationRun(dataset, "data", len(results), "digest", "nano", Settings())
        )
    return folder


Report = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Report:
    """Calls the command; gives its exit status, what it printed and what it said on standard error."""

    def run(*arguments: Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["vrthinker_core", "report", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), *capfd.readouterr()

    return run


def test_one_folder_gives_a_report(report: Report, tmp_path: Path) -> None:
    rows = simulate(60, 20)
    folder = keep(tmp_path / "run", rows, "genai-bench")
    code, out, error = report(folder)
    assert (code, error) == (0, "")
    assert "compared with “always tie”" in " ".join(out.split())
    assert str(folder / "report.html") in out.replace("\n", "")
    told = json.loads((folder / "report.json").read_text("utf-8"))["summary"]
    assert told == json.loads(json.dumps(asdict(summarize(rows, data_set="genai-bench")))), (
        "what was kept says what was judged"
    )


def test_a_pair_that_was_judged_again_counts_once(report: Report, tmp_path: Path) -> None:
    rows = simulate(40, 20)
    folder = keep(tmp_path / "run", [*simulate(40, 20, seed=1), *rows])
    again = keep(tmp_path / "again", rows)
    report(folder)
    report(again)
    assert (folder / "report.json").read_bytes() == (again / "report.json").read_bytes()


def test_two_folders_give_a_comparison(report: Report, tmp_path: Path) -> None:
    folders = [keep(tmp_path / name, simulate(60, 20, name=name)) for name in ("one", "two")]
    code, out, error = report(*folders)
    assert (code, error) == (0, "")
    assert "McNemar" in out
    assert (folders[0] / "comparison.html").is_file()
    assert not (folders[1] / "comparison.html").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "holds no results.jsonl"), (b"", "no result"), (b"{}\n", "Line 1")],
)
def test_what_is_no_evaluation_is_one_sentence(
    content: bytes | None, sentence: str, report: Report, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / RESULTS).write_bytes(content)
    code, out, error = report(tmp_path)
    assert (code, out) == (2, "")
    assert sentence in error
    assert len(error.splitlines()) == 1
