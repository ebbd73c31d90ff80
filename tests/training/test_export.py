"""`export`: rows of each kind from any set of traces, the very messages that a judge was sent, and traces that give none."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_clips import write_clip
from tests.test_cli import call
from tests.test_judge import ANSWER, CALL
from tests.test_traces import changed
from tests.test_votes import VOTE
from tests.training.test_token_rows import labelled
from tests.ui.support.saved_examples import write_example
from vrthinker_core import export
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.branch_plan import Changes, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, TRACES, result_of, to_line
from vrthinker_core.runner import judge, judge_branch
from vrthinker_core.traces import load, to_json
from vrthinker_core.training.config import CONFIG
from vrthinker_core.training.data import read_traced_pairs
from vrthinker_core.training.export import CSV_COLUMNS, ROWS, examples
from vrthinker_core.training.run_folder import STATE
from vrthinker_core.training.traces import (
    KnownLabel,
    NotForTraining,
    TraceFile,
    known_labels,
    read_traces,
    to_rollout,
)
from vrthinker_core.types import (
    Dimension,
    Preference,
    ProtocolName,
    Run,
    Settings,
    Trace,
    Verdict,
    VideoPair,
    Vote,
)
from vrthinker_core.types.messages import Message
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.types.wording import ODD_NOTES
from vrthinker_core.video.files import file_digest

EXAMPLES = Path(__file__).resolve().parents[2] / "assets" / "examples"
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


def write_evaluation(folder: Path, trace: Trace, pair: EvaluationPair) -> None:
    (folder / TRACES).mkdir(exist_ok=True)
    (folder / TRACES / "id.json").write_bytes(to_json(trace))
    (folder / RESULTS).write_bytes(to_line(result_of(pair, trace, f"{TRACES}/id.json")))


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
    assert (row["image"], row["is_video"]) == (["first.mp4", "second.mp4"], True)
    assert (row["question"], row["answer"]) == (BASE.turns[0].told, "TA=1, VQ=1, MQ=1, OA=1")
    assert row["source"] == dict.fromkeys(("TA", "VQ", "MQ", "OA"), "judge")


@pytest.mark.parametrize(
    ("trace", "preferred", "answer"),
    [
        (judged(TA=FIRST, MQ=TIE, OA=SECOND), "TA 1 judge, OA 2 judge", ""),
        (judged(TA=TIE), "", ""),
        (
            voted(judged(TA=FIRST, MQ=FIRST, VQ=SECOND, OA=SECOND), TA=SECOND, MQ=TIE, OA=FIRST),
            "TA 2 person, VQ 2 judge, OA 1 person",
            "TA=2, VQ=2, MQ=0, OA=1",
        ),
    ],
)
def test_each_kind_of_rows_tells_what_is_known(
    trace: Trace, preferred: str, answer: str, tmp_path: Path
) -> None:
    clips = ["first.mp4", "second.mp4"]
    told = []
    for row in exported(tmp_path, "preferences", trace):
        chosen, rejected = row["chosen"]["path"], row["rejected"]["path"]
        told.append(f"{row['dimension']} {clips.index(chosen) + 1} {row['source']}")
        assert {chosen, rejected} == set(clips)
        assert (row["blind"] is not None) == (row["source"] == "person")
    assert ", ".join(told) == preferred
    rows = exported(tmp_path, "dpo", trace)  # TRL's columns, of the overall label alone
    overall = [f"OA {clips.index(row['chosen']) + 1} {row['source']}" for row in rows]
    assert overall == [each for each in told if each.startswith("OA")]
    digests = [(clip.name, clip.digest) for clip in BASE.started.clips if clip]
    for row in rows:
        assert row["prompt"] == BASE.started.prompt
        named = [(row[name], row[f"{name}_sha256"]) for name in ("chosen", "rejected")]
        assert sorted(named) == sorted(digests)
    assert [row["answer"] for row in exported(tmp_path, "rl", trace)] == [answer] * bool(answer)


def test_traces_of_an_evaluation_name_the_videos_where_it_found_them(tmp_path: Path) -> None:
    first, second, other = (
        (EXAMPLE / name).as_posix() for name in ("first.mp4", "second.mp4", "trace.json")
    )
    for videos, named in (
        ((first, second), {first, second}),
        ((second, other), {"first.mp4", second}),  # Another file is never named as the video
    ):
        write_evaluation(tmp_path, BASE, EvaluationPair("id", 1, BASE.started.prompt, *videos))
        with (tmp_path / RESULTS).open("ab") as results:
            results.write(b"half a li")
        export([tmp_path], "dpo", tmp_path / "rows.jsonl")
        (row,) = read(tmp_path / "rows.jsonl")
        assert {row["chosen"], row["rejected"]} == named


def test_a_judges_label_counts_only_where_nothing_speaks_against_it() -> None:
    def known_of(trace: Trace) -> dict[Dimension, KnownLabel]:
        return known_labels(TraceFile(Path("trace.json"), trace))

    trace = judged(TA=FIRST, MQ=FIRST, VQ=SECOND, OA=TIE)
    assert set(known_of(voted(trace, agrees=False, OA=FIRST))) == {Dimension.OA}
    assert known_of(replace(trace, finished=replace(trace.finished, provisional=True))) == {}
    verdict = swap_verdict(Verdict(TA=FIRST, MQ=SECOND, VQ=TIE, OA=TIE))
    turned = replace(trace.started, clips=trace.started.clips[::-1])
    other = Run(turned, trace.turns, replace(trace.finished, verdict=verdict))
    same = set(known_of(replace(trace, swapped=other)))
    assert same == {Dimension.TA, Dimension.OA}, "those that stay the same in both orders"


@pytest.mark.parametrize("kind", ROWS)
def test_filters_leave_out_runs_that_nobody_agrees_with(kind: str, tmp_path: Path) -> None:
    verdict = dict.fromkeys(("TA", "MQ", "VQ", "OA"), FIRST)
    plain = judged(**verdict)
    noted = replace(plain, vote=Vote(VOTE.at, note="Hm."))
    write(tmp_path, plain, voted(plain, agrees=True), voted(plain, OA=SECOND), noted)
    for earlier in ROWS:
        export([EXAMPLES], earlier, tmp_path / "out.rows")  # An earlier export is replaced

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
def test_outside_the_scope_a_run_gives_what_a_person_says(kind: str, tmp_path: Path) -> None:
    outside = replace(BASE, finished=replace(BASE.finished, verdict=None, outside_scope=True))
    assert outside.last_labels == BASE.finished.verdict, "its replies say them all the same"
    told = voted(outside, **dict.fromkeys(("TA", "MQ", "VQ", "OA"), SECOND))
    for trace, rows in ((outside, 0), (told, {"sft": 0, "preferences": 4}.get(kind, 1))):
        (tmp_path / "trace.json").write_bytes(to_json(trace))
        report = export([tmp_path], kind, tmp_path / "rows")
        assert report.rows == rows
        assert [ODD_NOTES in line for line in report.skipped] == ([] if rows else [True])


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


def test_the_command_names_what_it_skips_and_goes_on(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "good")
    (tmp_path / "broken.json").write_text('{"format": "vr-thinker-trace/1"')
    (tmp_path / "other.json").write_text("[1, 2]")
    out = tmp_path / "rows.jsonl"
    code, said, errors = call("export", tmp_path, "--to", "preferences", "--out", out)
    assert code == 0, errors
    assert said.startswith("4 rows from 1 trace; 2 traces skipped, written to ")
    broken, other = lines = errors.splitlines()
    assert ("broken.json" in broken, "other.json" in other) == (True, True)
    report = export(str(tmp_path), "preferences", tmp_path / "python.jsonl")
    assert report.skipped == lines
    assert (tmp_path / "python.jsonl").read_bytes() == out.read_bytes()
    with pytest.raises(BadInput, match="There are no rows 'table'"):
        export(tmp_path, "table", out)  # type: ignore[arg-type]
    none = tmp_path / "none.jsonl"
    code, said, errors = call("export", EXAMPLES, "--to", "sft", "--voted-only", "--out", none)
    assert (code, none.exists()) == (3, False)
    assert said == "0 rows from 0 traces; 8 traces skipped; nothing was written.\n"
    assert "nobody has voted on it" in errors


@pytest.mark.parametrize("place", ["notes.jsonl", "table.csv", "link.jsonl", ".", "no/x"])
def test_no_other_file_is_replaced(place: str, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text('{"mine": 1}\n')
    (tmp_path / "table.csv").write_text(",".join(CSV_COLUMNS[:-2]) + "\n")  # As it was published
    export([EXAMPLES], "rl", tmp_path / "earlier.jsonl")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "earlier.jsonl")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(BadInput, match=r"\.$"):
        export([EXAMPLES], "rl", tmp_path / place)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (["started", "settings", "total"], 7),
        (["started", "settings", "frames_per_call"], 2**40),
        (["started", "clips"], [None, None]),
        (["started", "clips", 0, "name"], "../../secret"),
        (["started", "prompt"], ""),
        (["turns", 0, "frames"], []),
        (["turns", 0, "reply", "wants", "indices"], [10**15]),
        (["finished"], None),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ROWS)
def test_odd_values_give_a_row_or_a_reason(
    where: list[Any], value: Any, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "odd.json").write_bytes(changed(to_json(BASE), where, value))
    report = export([tmp_path], kind, tmp_path / "rows")
    assert bool(report.rows) is not bool(report.skipped)
    if report.rows:  # No path comes from a trace
        assert "../" not in (tmp_path / "rows").read_text("utf-8")


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
        write_evaluation(tmp_path, trace, pair)
        if not export([tmp_path], kind, tmp_path / "out.rows", **chosen).rows:
            return []
        return [{}] if kind == "videogen-reward" else read(tmp_path / "out.rows")

    return exported


def test_no_reply_teaches_what_the_data_set_contradicts(evaluated: Evaluated) -> None:
    other = replace(VERDICT, OA=SECOND)
    assert evaluated(JUDGED, other) == []
    (row,) = evaluated(JUDGED, Verdict(OA=FIRST))
    assert row["labels"] == VERDICT.labels, "people's where they are known, else the judge's"
    assert evaluated(JUDGED, Verdict(), voted_only=True) == []
    for kind in ROWS:  # Its labels are a person's for the filters
        assert evaluated(JUDGED, VERDICT, kind, voted_only=True)
        assert evaluated(JUDGED, VERDICT, kind, agreed_only=True)
        assert evaluated(JUDGED, other, kind, agreed_only=True) == []
        assert bool(evaluated(JUDGED, other, kind, voted_only=True)) is (kind != "sft")
    (row,) = evaluated(voted(JUDGED, OA=FIRST), other)
    assert row["labels"]["OA"] == FIRST, "a vote comes before the data set"
    assert evaluated(voted(JUDGED, OA=SECOND), VERDICT) == []
    assert evaluated(voted(JUDGED, agrees=True), other) == []


def test_labels_are_turned_round_for_the_second_order(evaluated: Evaluated, tmp_path: Path) -> None:
    answers = [ANSWER_AT_ONCE]  # 1 overall in either order
    write_example(tmp_path / "both", settings=Settings(swap="on"), replies=answers)
    trace = load(tmp_path / "both" / "trace.json")
    rows = exported(tmp_path / "both", "sft")
    assert [row["order"] for row in rows] == ["given", "swapped"]
    assert rows[0]["videos"] == rows[1]["videos"][::-1]
    shutil.rmtree(tmp_path / "both")
    for labels, order in ((FIRST, "given"), (SECOND, "swapped")):
        (row,) = evaluated(trace, Verdict(OA=labels))
        assert (row["order"], row["labels"]["OA"]) == (order, FIRST)


CALLS = {
    "paired": CALL.partition("[")[0].replace("{", "{{") + "{}}}}}}}</tool_call>",
    "concat": "<think>t</think><recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>"
    '<tool_call>{{"name": "select_frames", "arguments": {{"target_frames": {}}}}}</tool_call>',
}


PAIRED = [*(CALLS["paired"].format(each) for each in ([10, 30], [20, 40], [60])), ANSWER]
CONCAT = [
    *(CALLS["concat"].format(each) for each in ([5, 90], [6, 7, 60], [999])),
    "<think>t</think><final answer>TA=1, VQ=1, MQ=0, OA=1</final answer>",
]


def recorded(
    folder: Path, replies: Sequence[str], protocol: ProtocolName, settings: Settings
) -> tuple[Trace, list[tuple[Message, ...]]]:
    """A run over two clips of different shapes, and what its judge was sent in each turn."""
    first = write_clip(folder / "first.mp4", frames=40, hue=20)
    second = write_clip(folder / "second.mp4", frames=30, hue=90)
    sent: list[tuple[Message, ...]] = []

    def reply(messages: Sequence[Message]) -> str:
        sent.append(tuple(messages))
        return replies[len(sent) - 1]

    pair = VideoPair("A block <|im_end|> glides.", first, second)
    backend = ScriptedBackend(reply, protocol=protocol)
    list(judge(pair, backend, settings, trace=folder / "trace.json"))
    return load(folder / "trace.json"), sent


def seen(message: Message) -> list[object]:
    """Words and frames of a message, without the pixels."""
    frames = [replace(frame, key="", rgb=b"") for frame in message.frames]
    return [message.role, message.text, frames, [type(part) for part in message.parts]]


@pytest.mark.parametrize(
    ("replies", "protocol", "settings"),
    [
        (PAIRED, "paired", Settings()),
        (PAIRED, "paired", Settings(window=1)),
        (PAIRED, "paired", Settings(max_turns=4)),
        ([ANSWER], "paired", Settings(max_turns=1)),
        (CONCAT, "concat", Settings()),
        (CONCAT, "concat", Settings(window=1, preset="clean", opening="card")),
        (CONCAT, "concat", Settings(preset="paper-rapidata", opening_frames=32)),
        (["what?", ANSWER], "paired", Settings()),
    ],
)
def test_prompts_are_what_was_sent(
    tmp_path: Path, replies: list[str], protocol: ProtocolName, settings: Settings
) -> None:
    trace, sent = recorded(tmp_path, replies, protocol, settings)
    found, taught = list(examples(trace)), 0
    for messages, replies in found:
        assert messages[-1].role == "assistant"
        for position in replies:
            before, known = messages[:position], sent[taught]
            assert list(map(seen, before)) == list(map(seen, known))
            assert messages[position].text == trace.turns[taught].reply.text
            taught += 1
    assert taught == len(trace.turns) == len(sent), "each reply is taught once"
    assert (len(found) > 1) is (settings.window == 1 or protocol == "concat")
    labels = dict.fromkeys(("TA", "MQ", "VQ", "OA"), FIRST)
    row, *_ = exported(tmp_path, "rl", voted(trace, **labels))
    forced = make_protocol(settings, protocol).force_answer()
    assert row["question"] == sent[0][-1].text.removesuffix(forced)


def test_a_control_teaches_nothing(tmp_path: Path) -> None:
    """Its judge answered after frames that it did not ask for."""
    trace, _ = recorded(tmp_path, PAIRED, "paired", Settings(frames="random"))
    told = voted(trace, agrees=True, **dict.fromkeys(("TA", "MQ", "VQ", "OA"), FIRST))
    (tmp_path / "trace.json").write_bytes(to_json(told))
    for kind in ROWS:
        report = export([tmp_path], kind, tmp_path / "rows")
        assert (report.rows, len(report.skipped)) == (0, 1)
        assert "it is a control" in report.skipped[0]
    assert read_traced_pairs(tmp_path) == []
    pair = replace(labelled(3), prompt=trace.started.prompt)
    with pytest.raises(NotForTraining, match="it is a control"):
        to_rollout(
            replace(trace, started=replace(trace.started, clips=(None, None))),
            pair,
            keep_tokens=True,
        )


def test_a_trace_that_says_something_else_was_sent_is_no_example() -> None:
    trace = load(next(EXAMPLES.glob("think-1*/trace.json")))
    first, *others = trace.turns
    for change in ({"told": "Say 1."}, {"in_view": ()}, {"frames": first.frames[:2]}):
        turns = (replace(first, **change), *others)
        with pytest.raises(NotForTraining):
            list(examples(replace(trace, turns=turns)))


def test_frames_that_a_person_chose_are_no_call_of_the_judge(tmp_path: Path) -> None:
    origin, _ = recorded(tmp_path, PAIRED, "paired", Settings())
    pair = VideoPair(origin.started.prompt, tmp_path / "first.mp4", tmp_path / "second.mp4")
    plan = plan_branch(origin, 2, Changes(frames=(4, 9)))
    answerer = ScriptedBackend([ANSWER], protocol="paired")
    list(judge_branch(plan, pair, answerer, trace=tmp_path / "branch.json"))
    with pytest.raises(NotForTraining, match="a person, not the judge, chose the frames of turn 2"):
        list(examples(load(tmp_path / "branch.json")))


def test_what_evaluations_and_trainings_keep_besides_traces_is_not_named(tmp_path: Path) -> None:
    others = ("run.json", "report.json", "comparison.json", "ranking.json")
    kept = ("held-out.json", "checkpoint/config.json", "checkpoints/model/tokenizer.json")
    silent = [f"ev/{name}" for name in (*others, RESULTS)]
    silent += [f"run/{name}" for name in (STATE, CONFIG, *kept)]
    named = {"other.json", "ev/traces/three.json"}
    # A trace has any name in any other folder
    traces = {"ev/traces/one.json", "run/rollouts/two.json"}
    traces |= {f"any/{name}" for name in (*others, STATE, "mine.json", "checkpoint/c.json")}
    for names, data in ((traces, to_json(BASE)), ({*silent, *named}, b"{}")):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    refused: list[Path] = []
    files = list(read_traces([tmp_path], None, lambda path, _: refused.append(path)))
    assert {file.path.relative_to(tmp_path).as_posix() for file in files} == traces
    assert {path.relative_to(tmp_path).as_posix() for path in refused} == named
