"""`export`: rows of each kind from any set of traces, who said what, and what becomes of traces that give none."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.test_cli import run as run_command
from tests.test_traces import changed
from tests.test_votes import VOTE
from tests.ui.support.saved_examples import write_example
from vrthinker_core import export
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, result_of, to_line
from vrthinker_core.traces import load, to_json
from vrthinker_core.training.export import CSV_COLUMNS, ROWS
from vrthinker_core.training.teaching import KnownLabel, TraceFile, known_labels
from vrthinker_core.types import Dimension, Preference, Run, Settings, Trace, Verdict, Vote
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.types.wording import ODD_NOTES
from vrthinker_core.video.files import file_digest

EXAMPLES = Path(__file__).resolve().parents[3] / "assets" / "examples"
EXAMPLE = EXAMPLES / "think-1-what-four-frames-do-not-show"
BASE = load(EXAMPLE / "trace.json")
ANSWER_AT_ONCE = "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
TIE, FIRST, SECOND = Preference.TIE, Preference.FIRST, Preference.SECOND


def judged(**labels: Preference | None) -> Trace:
    """The stored run with another verdict."""
    return replace(BASE, finished=replace(BASE.finished, verdict=Verdict(**labels)))


def voted(trace: Trace, agrees: bool | None = None, **labels: Preference) -> Trace:
    return replace(trace, vote=Vote(VOTE.at, Verdict(**labels), agrees))


def write(folder: Path, *traces: Trace) -> None:
    for number, trace in enumerate(traces):
        (folder / f"{number}.json").write_bytes(to_json(trace))


def read(rows: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in rows.read_text("utf-8").splitlines()]


def exported(folder: Path, kind: str, *traces: Trace) -> list[dict[str, Any]]:
    write(folder, *traces)
    report = export([folder], kind, folder / "rows.jsonl")
    return read(folder / "rows.jsonl") if report.rows else []


def test_sft_rows_hold_the_conversation_with_frames_by_name(tmp_path: Path) -> None:
    report = export([EXAMPLES], "sft", tmp_path / "rows.jsonl")
    rows = read(tmp_path / "rows.jsonl")
    assert (report.rows, report.used, len(report.skipped)) == (len(rows), 7, 1)
    assert "protocol-3" in report.skipped[0]
    assert "format" in report.skipped[0]
    row = next(row for row in rows if "think-1" in row["trace"])
    roles = [message["role"] for message in row["message_list"]]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert row["taught"] == [2, 4]
    assert row["message_list"][2]["content"] == [{"type": "text", "text": BASE.turns[0].reply.text}]
    first = row["message_list"][1]["content"]
    assert [part["type"] for part in first] == ["image"] * 8 + ["text"]
    shown = BASE.turns[0].frames[0]
    video = EXAMPLE / "first.mp4"
    assert first[0]["image"] == f"{video.as_posix()}#{shown.index}"
    assert (first[0]["side"], first[0]["slot"], first[0]["width"]) == (1, shown.ref.slot, 448)
    assert row["videos"][0]["sha256"] == file_digest(video)


def test_a_video_that_is_gone_or_another_is_named_without_a_path(tmp_path: Path) -> None:
    (tmp_path / "second.mp4").write_bytes(b"another video")
    (row,) = exported(tmp_path, "rl", BASE)
    assert row["image"] == ["first.mp4", "second.mp4"]
    assert row["is_video"] is True
    assert row["question"] == BASE.turns[0].told
    assert row["answer"] == "TA=1, VQ=1, MQ=1, OA=1"
    assert set(row) >= {"question", "image", "is_video", "qid", "answer"}


def test_ties_and_what_was_not_said_are_no_preference(tmp_path: Path) -> None:
    rows = exported(tmp_path, "preferences", judged(TA=FIRST, MQ=TIE, VQ=None, OA=SECOND))
    said = {tuple(row[name]["path"] for name in ("chosen", "rejected")): row for row in rows}
    assert len(rows) == 2
    assert said["first.mp4", "second.mp4"]["dimension"] == "TA"
    assert said["second.mp4", "first.mp4"]["dimension"] == "OA"
    assert {row["source"] for row in rows} == {"judge"}
    assert exported(tmp_path, "preferences", judged(TA=TIE, OA=None)) == []


def test_dpo_rows_have_trls_columns_and_only_the_overall_label_counts(tmp_path: Path) -> None:
    (row,) = exported(tmp_path, "dpo", judged(TA=FIRST, MQ=TIE, VQ=None, OA=SECOND))
    assert (row["prompt"], row["source"]) == (BASE.started.prompt, "judge")
    assert (row["chosen"], row["rejected"]) == ("second.mp4", "first.mp4")
    digests = [clip.digest for clip in BASE.started.clips if clip]
    assert [row["chosen_sha256"], row["rejected_sha256"]] == digests[::-1]
    assert exported(tmp_path, "dpo", judged(TA=FIRST, OA=TIE)) == []
    (row,) = exported(tmp_path, "dpo", voted(judged(OA=SECOND), OA=FIRST))
    assert (row["chosen"], row["source"]) == ("first.mp4", "person")


def test_traces_of_an_evaluation_name_the_videos_where_it_found_them(tmp_path: Path) -> None:
    first, second = (EXAMPLE / name for name in ("first.mp4", "second.mp4"))
    pair = EvaluationPair("id", 1, BASE.started.prompt, str(first), str(second))
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "id.json").write_bytes(to_json(BASE))
    (tmp_path / RESULTS).write_bytes(to_line(result_of(pair, BASE, "traces/id.json")))
    export([tmp_path], "dpo", tmp_path / "rows.jsonl")
    (row,) = read(tmp_path / "rows.jsonl")
    assert {row["chosen"], row["rejected"]} == {first.as_posix(), second.as_posix()}
    other = replace(pair, first=str(second), second=str(EXAMPLE / "trace.json"))
    line = to_line(result_of(other, BASE, "traces/id.json"))
    (tmp_path / RESULTS).write_bytes(line + b"half a li")
    export([tmp_path], "dpo", tmp_path / "rows.jsonl")
    (row,) = read(tmp_path / "rows.jsonl")
    names = {Path(row["chosen"]).name, row["rejected"]}
    assert "first.mp4" in names, "another file is never named as the video"


def test_the_persons_label_comes_before_the_judges(tmp_path: Path) -> None:
    trace = voted(judged(TA=FIRST, MQ=FIRST, VQ=SECOND, OA=FIRST), TA=SECOND, MQ=TIE)
    rows = exported(tmp_path, "preferences", trace)
    assert {(row["dimension"], row["chosen"]["path"], row["source"]) for row in rows} == {
        ("TA", "second.mp4", "person"),
        ("VQ", "second.mp4", "judge"),
        ("OA", "first.mp4", "judge"),
    }
    (row,) = exported(tmp_path, "rl", trace)
    assert row["answer"] == "TA=2, VQ=2, MQ=0, OA=1"
    assert row["source"] == {"TA": "person", "VQ": "judge", "MQ": "person", "OA": "judge"}


def known_of(trace: Trace) -> dict[Dimension, KnownLabel]:
    return known_labels(TraceFile(Path("trace.json"), trace))


def test_a_judges_label_counts_only_where_nothing_speaks_against_it() -> None:
    trace = judged(TA=FIRST, MQ=FIRST, VQ=SECOND, OA=TIE)
    assert set(known_of(voted(trace, agrees=False, OA=FIRST))) == {Dimension.OA}
    assert known_of(replace(trace, finished=replace(trace.finished, provisional=True))) == {}
    verdict = swap_verdict(Verdict(TA=FIRST, MQ=SECOND, VQ=TIE, OA=TIE))
    turned = replace(trace.started, clips=trace.started.clips[::-1])
    other = Run(turned, trace.turns, replace(trace.finished, verdict=verdict))
    same = set(known_of(replace(trace, swapped=other)))
    assert same == {Dimension.TA, Dimension.OA}, "those that stay the same in both orders"


@pytest.mark.parametrize("kind", ROWS)
def test_filters_leave_out_runs_without_a_vote_and_those_a_person_disagrees_with(
    kind: str, tmp_path: Path
) -> None:
    verdict = dict.fromkeys(("TA", "MQ", "VQ", "OA"), FIRST)
    plain = judged(**verdict)
    noted = replace(plain, vote=Vote(VOTE.at, note="Hm."))
    write(tmp_path, plain, voted(plain, agrees=True), voted(plain, OA=SECOND), noted)

    def used(**chosen: bool) -> set[str]:
        report = export([tmp_path], kind, tmp_path / "out.rows", **chosen)
        skipped = {Path(line.partition(": ")[0]).stem for line in report.skipped}
        assert report.used == 4 - len(skipped)
        return {"0", "1", "2", "3"} - skipped

    taught = {"0", "1", "3"}  # No reply teaches what a person contradicts
    assert used() == (taught if kind == "sft" else taught | {"2"})
    assert used(voted_only=True) == ({"1"} if kind == "sft" else {"1", "2"})
    assert used(agreed_only=True) == {"1"}


@pytest.mark.parametrize("kind", ROWS)
def test_a_run_outside_the_judges_scope_gives_what_a_person_says_and_no_label_of_its_own(
    kind: str, tmp_path: Path
) -> None:
    outside = replace(BASE, finished=replace(BASE.finished, verdict=None, outside_scope=True))
    assert outside.last_labels == BASE.finished.verdict, "its replies say them all the same"
    (tmp_path / "trace.json").write_bytes(to_json(outside))
    report = export([tmp_path], kind, tmp_path / "rows")
    assert (report.rows, [ODD_NOTES in line for line in report.skipped]) == (0, [True])
    told = voted(outside, **dict.fromkeys(("TA", "MQ", "VQ", "OA"), SECOND))
    (tmp_path / "trace.json").write_bytes(to_json(told))
    report = export([tmp_path], kind, tmp_path / "rows")
    if kind == "sft":
        assert (report.rows, [ODD_NOTES in line for line in report.skipped]) == (0, [True])
    else:
        assert (report.rows, report.skipped) == (4 if kind == "preferences" else 1, [])
        text = (tmp_path / "rows").read_text("utf-8")
        assert re.search('": "person"|,person,', text)
        assert not re.search('": "judge"|,judge,', text)


def test_the_table_has_the_published_columns(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    export([EXAMPLES], "videogen-reward", out)
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(CSV_COLUMNS)
    assert len(rows) == 8
    row = next(row for row in rows if "think-1" in row["path_A"])
    labels = ("VQ", "MQ", "TA", "Overall")
    assert [row[name] for name in labels] == ["A"] * 4
    assert (row["num_frames_B"], row["source"]) == ("128", "judge")
    assert {row[name] for row in rows for name in labels} <= {"A", "B", "same"}


def test_both_orders_give_two_conversations(tmp_path: Path) -> None:
    write_example(tmp_path / "both", settings=Settings(swap="on"), replies=[ANSWER_AT_ONCE])
    report = export([tmp_path], "sft", tmp_path / "rows.jsonl")
    rows = read(tmp_path / "rows.jsonl")
    assert report.used == 1
    assert [row["order"] for row in rows] == ["given", "swapped"]
    assert rows[0]["videos"] == rows[1]["videos"][::-1]


# -- the command ---------------------------------------------------------------------------------------------------------


def test_the_command_names_what_it_skips_and_goes_on(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "good")
    (tmp_path / "broken.json").write_text('{"format": "vr-thinker-trace/1"')
    (tmp_path / "other.json").write_text("[1, 2]")
    out = tmp_path / "rows.jsonl"
    done = run_command("export", tmp_path, "--to", "preferences", "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 rows from 1 trace; 2 traces skipped, written to ")
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for name in ("broken.json", "other.json"):
        assert sum(name in line for line in lines) == 1
    assert "Traceback" not in done.stderr
    report = export(str(tmp_path), "preferences", tmp_path / "python.jsonl")
    assert report.skipped == lines
    assert (tmp_path / "python.jsonl").read_bytes() == out.read_bytes()
    with pytest.raises(BadInput, match="There are no rows 'table'"):
        export(tmp_path, "table", out)  # type: ignore[arg-type]


def test_without_a_row_nothing_is_written_and_the_status_is_3(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    done = run_command("export", EXAMPLES, "--to", "sft", "--voted-only", "--out", out)
    assert done.returncode == 3
    assert done.stdout == "0 rows from 0 traces; 8 traces skipped; nothing was written.\n"
    assert "nobody has voted on it" in done.stderr
    assert list(tmp_path.iterdir()) == []


def other_file(folder: Path) -> Path:
    (folder / "notes.jsonl").write_text('{"mine": 1}\n')
    return folder / "notes.jsonl"


def published_table(folder: Path) -> Path:
    (folder / "table.csv").write_text(",".join(CSV_COLUMNS[:-2]) + "\n")
    return folder / "table.csv"


def link(folder: Path) -> Path:
    export([EXAMPLES], "rl", folder / "earlier.jsonl")
    (folder / "link.jsonl").symlink_to(folder / "earlier.jsonl")
    return folder / "link.jsonl"


@pytest.mark.parametrize(
    "place",
    [other_file, published_table, link, lambda folder: folder, lambda folder: folder / "no" / "x"],
)
def test_no_other_file_is_replaced(place: Callable[[Path], Path], tmp_path: Path) -> None:
    out = place(tmp_path)
    before = out.read_bytes() if out.is_file() else None
    with pytest.raises(BadInput) as error:
        export([EXAMPLES], "rl", out)
    assert str(error.value).endswith(".")
    assert before is None or out.read_bytes() == before
    assert not out.exists() or before is not None or out.is_dir()


@pytest.mark.parametrize("kind", ROWS)
def test_an_earlier_export_is_replaced(kind: str, tmp_path: Path) -> None:
    for earlier in ROWS:
        export([EXAMPLES], earlier, tmp_path / "rows")
        assert export([EXAMPLES], kind, tmp_path / "rows").rows > 0


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (["started", "settings", "total"], 7),
        (["started", "settings", "max_turns"], 0),
        (["started", "settings", "frames_per_call"], 2**40),
        (["started", "clips"], [None, None]),
        (["started", "clips", 0, "width"], 0),
        (["started", "clips", 0, "name"], "../../secret"),
        (["started", "prompt"], ""),
        (["turns"], []),
        (["turns", 0, "frames"], []),
        (["turns", 0, "completion", "text"], ""),
        (["turns", 0, "reply", "wants", "indices"], [10**15]),
        (["finished"], None),
        (["finished", "verdict"], None),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ROWS)
def test_a_trace_with_odd_values_is_a_row_or_a_reason(
    where: list[Any], value: Any, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "odd.json").write_bytes(changed(to_json(BASE), where, value))
    report = export([tmp_path], kind, tmp_path / "rows")
    assert bool(report.rows) is not bool(report.skipped)
    if report.rows:  # No path comes from a trace
        assert "../" not in (tmp_path / "rows").read_text("utf-8")
