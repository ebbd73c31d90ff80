"""`export`: rows of each kind from any set of traces, the very messages that a judge was sent, and traces that give none."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
from vrthinker_core.training.data import read_traced_pairs
from vrthinker_core.training.export import CSV_COLUMNS, ROWS, examples
from vrthinker_core.training.traces import NotForTraining, read_traces, to_rollout
from vrthinker_core.types import Preference, ProtocolName, Run, Settings, Trace, Verdict, VideoPair
from vrthinker_core.types.messages import Message
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.types.wording import ODD_NOTES
from vrthinker_core.video.files import file_digest

Rows = list[dict[str, Any]]
EXAMPLES = Path(__file__).resolve().parents[2] / "assets" / "examples"
EXAMPLE = EXAMPLES / "think-1-what-four-frames-do-not-show"
BASE = load(EXAMPLE / "trace.json")
TIE, FIRST, SECOND = Preference.TIE, Preference.FIRST, Preference.SECOND
VERDICT, ALL_SECOND = Verdict(FIRST, SECOND, TIE, FIRST), Verdict(*[SECOND] * 4)


def judged(verdict: Verdict | None, outside: bool = False) -> Trace:
    """The stored run with another verdict."""
    return replace(BASE, finished=replace(BASE.finished, verdict=verdict, outside_scope=outside))


def voted(trace: Trace, agrees: bool | None = None, labels: Verdict = Verdict()) -> Trace:
    return replace(trace, vote=replace(VOTE, labels=labels, agrees=agrees, slots=()))


def rows_of(folder: Path, kind: str, *traces: Trace, **chosen: bool) -> Rows:
    """Write the traces into the folder, and return the rows of all that it holds."""
    for number, trace in enumerate(traces):
        (folder / f"{number}.json").write_bytes(to_json(trace))
    out = folder / "rows"
    if not export([folder], kind, out, **chosen).rows:
        return []
    with out.open(encoding="utf-8", newline="") as file:
        csv_rows = kind == "videogen-reward"
        return list(csv.DictReader(file) if csv_rows else map(json.loads, file))


def evaluated(
    folder: Path, trace: Trace, labels: Verdict, kind: str = "sft", **chosen: bool
) -> Rows:
    """The rows of an evaluation of one pair with these labels of the data set."""
    videos = [(EXAMPLE / name).as_posix() for name in ("second.mp4", "first.mp4")]
    pair = EvaluationPair("id", 1, trace.started.prompt, *videos, labels)
    (folder / TRACES).mkdir(exist_ok=True)
    (folder / TRACES / "id.json").write_bytes(to_json(trace))
    line = to_line(result_of(pair, trace, f"{TRACES}/id.json"))
    (folder / RESULTS).write_bytes(line + b"half a li")
    return rows_of(folder, kind, **chosen)


def test_sft_rows_hold_the_conversation_with_frames_by_name(tmp_path: Path) -> None:
    report = export([EXAMPLES], "sft", tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    assert (report.rows, report.used, len(report.skipped)) == (len(rows), 7, 1)
    assert "protocol-3" in report.skipped[0]
    row = next(row for row in rows if "think-1" in row["trace"])
    roles = [message["role"] for message in row["message_list"]]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert row["taught"] == [2, 4]
    _, asked, reply, *_ = (message["content"] for message in row["message_list"])
    assert reply == [{"type": "text", "text": BASE.turns[0].reply.text}]
    assert [part["type"] for part in asked] == ["image"] * 8 + ["text"]
    shown, video = BASE.turns[0].frames[0], EXAMPLE / "first.mp4"
    assert asked[0]["image"] == f"{video.as_posix()}#{shown.index}"
    assert (asked[0]["side"], asked[0]["slot"], asked[0]["width"]) == (1, shown.ref.slot, 448)
    assert row["videos"][0]["sha256"] == file_digest(video)


def test_a_video_is_named_with_its_path_where_it_is_the_very_file(tmp_path: Path) -> None:
    (tmp_path / "second.mp4").write_bytes(b"another video")
    (row,) = rows_of(tmp_path, "rl", BASE)
    assert (row["image"], row["is_video"]) == (["first.mp4", "second.mp4"], True)
    assert (row["question"], row["answer"]) == (BASE.turns[0].told, "TA=1, VQ=1, MQ=1, OA=1")
    assert row["source"] == dict.fromkeys(("TA", "VQ", "MQ", "OA"), "judge")
    (tmp_path / "0.json").unlink()
    (row,) = evaluated(tmp_path, BASE, Verdict(), "rl")
    assert row["image"] == [(EXAMPLE / name).as_posix() for name in ("first.mp4", "second.mp4")]


@pytest.mark.parametrize(
    ("trace", "preferred", "answer"),
    [
        (judged(Verdict(TA=FIRST, MQ=TIE, OA=SECOND)), "TA 1 judge, OA 2 judge", ""),
        (judged(Verdict(TA=TIE)), "", ""),
        (
            voted(
                judged(Verdict(FIRST, FIRST, SECOND, SECOND)), None, Verdict(SECOND, TIE, OA=FIRST)
            ),
            "TA 2 person, VQ 2 judge, OA 1 person",
            "TA=2, VQ=2, MQ=0, OA=1",
        ),
    ],
)
def test_each_kind_of_rows_tells_what_is_known(
    trace: Trace, preferred: str, answer: str, tmp_path: Path
) -> None:
    clips, told = ["first.mp4", "second.mp4"], []
    for row in rows_of(tmp_path, "preferences", trace):
        chosen, rejected = row["chosen"]["path"], row["rejected"]["path"]
        told.append(f"{row['dimension']} {clips.index(chosen) + 1} {row['source']}")
        assert {chosen, rejected} == set(clips)
        assert (row["blind"] is not None) == (row["source"] == "person")
    assert ", ".join(told) == preferred
    rows = rows_of(tmp_path, "dpo", trace)  # TRL's columns, of the overall label alone
    overall = [f"OA {clips.index(row['chosen']) + 1} {row['source']}" for row in rows]
    assert overall == [each for each in told if each.startswith("OA")]
    for row in rows:
        named = {row[name]: row[f"{name}_sha256"] for name in ("chosen", "rejected")}
        assert named == {clip.name: clip.digest for clip in BASE.started.clips if clip}
    assert [row["answer"] for row in rows_of(tmp_path, "rl", trace)] == [answer] * bool(answer)


def test_a_judges_label_counts_only_where_nothing_speaks_against_it(tmp_path: Path) -> None:
    def known_of(trace: Trace) -> list[str]:
        return [row["dimension"] for row in rows_of(tmp_path, "preferences", trace)]

    trace = judged(Verdict(FIRST, FIRST, SECOND, FIRST))
    assert known_of(voted(trace, agrees=False, labels=Verdict(OA=FIRST))) == ["OA"]
    assert known_of(replace(trace, finished=replace(trace.finished, provisional=True))) == []
    verdict = swap_verdict(Verdict(FIRST, SECOND, TIE, FIRST))
    turned = replace(trace.started, clips=trace.started.clips[::-1])
    other = Run(turned, trace.turns, replace(trace.finished, verdict=verdict))
    assert known_of(replace(trace, swapped=other)) == ["TA", "OA"], "the same in both orders"


@pytest.mark.parametrize("kind", ROWS)
def test_filters_leave_out_runs_that_nobody_agrees_with(kind: str, tmp_path: Path) -> None:
    plain = judged(ALL_SECOND)
    other = voted(plain, labels=Verdict(OA=FIRST))
    rows_of(tmp_path, kind, plain, voted(plain, agrees=True), other, voted(plain))
    for earlier in ROWS:
        export([EXAMPLES], earlier, tmp_path / "rows")  # An earlier export is replaced

    def used(**chosen: bool) -> str:
        report = export([tmp_path], kind, tmp_path / "rows", **chosen)
        skipped = {Path(line.partition(": ")[0]).stem for line in report.skipped}
        assert report.used == 4 - len(skipped)
        return "".join(sorted({*"0123"} - skipped))

    # No reply teaches what a person contradicts
    assert used() == ("013" if kind == "sft" else "0123")
    assert used(voted_only=True) == ("1" if kind == "sft" else "12")
    assert used(agreed_only=True) == "1"


@pytest.mark.parametrize("kind", ROWS)
def test_outside_the_scope_a_run_gives_what_a_person_says(kind: str, tmp_path: Path) -> None:
    outside = judged(None, outside=True)
    told = voted(outside, labels=ALL_SECOND)
    for trace, rows in ((outside, 0), (told, {"sft": 0, "preferences": 4}.get(kind, 1))):
        (tmp_path / "trace.json").write_bytes(to_json(trace))
        report = export([tmp_path], kind, tmp_path / "rows")
        assert report.rows == rows
        assert [ODD_NOTES in line for line in report.skipped] == ([] if rows else [True])


def test_the_table_has_the_published_columns(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, "videogen-reward", judged(VERDICT))
    assert list(row) == list(CSV_COLUMNS)
    assert [row[name] for name in ("VQ", "MQ", "TA", "Overall")] == ["same", "B", "A", "A"]
    assert (row["path_A"], row["num_frames_B"], row["source"]) == ("first.mp4", "128", "judge")


def test_the_command_names_what_it_skips_and_goes_on(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "good")
    (tmp_path / "broken.json").write_text('{"format": "vr-thinker-trace/1"')
    out, python = tmp_path / "rows.jsonl", tmp_path / "python.jsonl"
    code, said, errors = call("export", tmp_path, "--to", "preferences", "--out", out)
    assert (code, "broken.json" in errors) == (0, True)
    assert said.startswith("4 rows from 1 trace; 1 trace skipped, written to ")
    assert export(str(tmp_path), "preferences", python).skipped == errors.splitlines()
    assert python.read_bytes() == out.read_bytes()
    with pytest.raises(BadInput, match="There are no rows 'table'"):
        export(tmp_path, "table", out)  # type: ignore[arg-type]
    none = tmp_path / "none.jsonl"
    code, said, errors = call("export", EXAMPLES, "--to", "sft", "--voted-only", "--out", none)
    assert (code, none.exists(), "nobody has voted on it" in errors) == (3, False, True)
    assert said == "0 rows from 0 traces; 8 traces skipped; nothing was written.\n"


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
        ("started settings total", 7),
        ("started clips", [None, None]),
        ("started clips 0 name", "../../secret"),
        ("started prompt", ""),
        ("turns", []),
        ("turns 0 frames", []),
        ("turns 0 reply wants indices", [10**15]),
        ("finished", None),
    ],
)
def test_odd_values_give_a_row_or_a_reason(where: str, value: Any, tmp_path: Path) -> None:
    place = [int(each) if each.isdecimal() else each for each in where.split()]
    (tmp_path / "odd.json").write_bytes(changed(to_json(BASE), place, value))
    for kind in ROWS:
        report = export([tmp_path], kind, tmp_path / "rows")
        assert bool(report.rows) is not bool(report.skipped)
        if report.rows:  # No path comes from a trace
            assert "../" not in (tmp_path / "rows").read_text("utf-8")


def test_no_reply_teaches_what_the_data_set_contradicts(tmp_path: Path) -> None:
    trace, other = judged(VERDICT), replace(VERDICT, OA=SECOND)
    (row,) = evaluated(tmp_path, trace, Verdict(OA=FIRST))
    assert row["labels"] == VERDICT.labels, "people's where they are known, else the judge's"
    for kind in ROWS:  # Its labels are a person's for the filters
        assert evaluated(tmp_path, trace, VERDICT, kind, voted_only=True, agreed_only=True)
        assert evaluated(tmp_path, trace, other, kind, agreed_only=True) == []
        assert bool(evaluated(tmp_path, trace, other, kind)) is (kind != "sft")
    (row,) = evaluated(tmp_path, voted(trace, labels=Verdict(OA=FIRST)), other)
    assert row["labels"]["OA"] == FIRST, "a vote comes before the data set"
    assert evaluated(tmp_path, voted(trace, agrees=True), other) == []


PAIRED_CALL = CALL.partition("[")[0].replace("{", "{{") + "{}}}}}}}</tool_call>"
CONCAT_CALL = (
    "<think>t</think><recommend answer>TA=1, VQ=1, MQ=0, OA=1, CF=3</recommend answer>"
    '<tool_call>{{"name": "select_frames", "arguments": {{"target_frames": {}}}}}</tool_call>'
)
PAIRED = [*map(PAIRED_CALL.format, ([10, 30], [20, 40], [60])), ANSWER]
CONCAT = [
    *map(CONCAT_CALL.format, ([5, 90], [6, 7, 60], [999])),
    "<think>t</think><final answer>TA=1, VQ=1, MQ=0, OA=1</final answer>",
]


def recorded(
    folder: Path, replies: Sequence[str], protocol: ProtocolName, settings: Settings
) -> tuple[Trace, list[tuple[Message, ...]]]:
    """A run over two clips of different lengths, and what its judge was sent in each turn."""
    write_example(folder / "clips")
    sent: list[tuple[Message, ...]] = []

    def reply(messages: Sequence[Message]) -> str:
        sent.append(tuple(messages))
        return replies[len(sent) - 1]

    clips = [folder / "clips" / name for name in ("first.mp4", "second.mp4")]
    pair = VideoPair("A block <|im_end|> glides.", *clips)
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
    for messages, positions in found:
        assert messages[-1].role == "assistant"
        for position in positions:
            assert [*map(seen, messages[:position])] == [*map(seen, sent[taught])]
            assert messages[position].text == trace.turns[taught].reply.text
            taught += 1
    assert taught == len(trace.turns) == len(sent), "each reply is taught once"
    assert (len(found) > 1) is (settings.window == 1 or protocol == "concat")
    row, *_ = rows_of(tmp_path, "rl", voted(trace, labels=ALL_SECOND))
    forced = make_protocol(settings, protocol).force_answer()
    assert row["question"] == sent[0][-1].text.removesuffix(forced)


def test_a_control_teaches_nothing(tmp_path: Path) -> None:
    """Its judge answered after frames that it did not ask for."""
    trace, _ = recorded(tmp_path, PAIRED, "paired", Settings(frames="random"))
    shutil.rmtree(tmp_path / "clips")
    (tmp_path / "trace.json").write_bytes(to_json(voted(trace, True, ALL_SECOND)))
    for kind in ROWS:
        report = export([tmp_path], kind, tmp_path / "rows")
        assert (report.rows, "it is a control" in report.skipped[0]) == (0, True)
    assert read_traced_pairs(tmp_path) == []
    pair = replace(labelled(3), prompt=trace.started.prompt)
    unknown = replace(trace, started=replace(trace.started, clips=(None, None)))
    with pytest.raises(NotForTraining, match="it is a control"):
        to_rollout(unknown, pair, keep_tokens=True)


def test_a_trace_that_says_something_else_was_sent_is_no_example(tmp_path: Path) -> None:
    first, *others = BASE.turns
    for change in ({"told": "Say 1."}, {"in_view": ()}, {"frames": first.frames[:2]}):
        with pytest.raises(NotForTraining):
            list(examples(replace(BASE, turns=(replace(first, **change), *others))))
    videos = [EXAMPLE / name for name in ("first.mp4", "second.mp4")]
    plan = plan_branch(BASE, 2, Changes(frames=(4, 9)))
    pair, answerer = VideoPair(BASE.started.prompt, *videos), ScriptedBackend([ANSWER], "paired")
    list(judge_branch(plan, pair, answerer, trace=tmp_path / "branch.json"))
    with pytest.raises(NotForTraining, match="a person, not the judge, chose the frames of turn 2"):
        list(examples(load(tmp_path / "branch.json")))


def test_what_evaluations_and_trainings_keep_besides_traces_is_not_named(tmp_path: Path) -> None:
    silent = "ev/run.json ev/results.jsonl ev/report.json run/state.json run/config.json run/held-out.json"
    silent += " run/checkpoint/config.json run/checkpoints/model/tokenizer.json"
    named = "ev/traces/three.json other.json"
    # A trace has any name in any other folder
    traces = (
        "any/checkpoint/c.json any/run.json any/state.json ev/traces/one.json run/rollouts/two.json"
    )
    for names, data in ((traces, to_json(BASE)), (f"{silent} {named}", b"{}")):
        for name in names.split():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    refused: list[Path] = []
    files = list(read_traces([tmp_path], None, lambda path, _: refused.append(path)))
    assert [file.path.relative_to(tmp_path).as_posix() for file in files] == traces.split()
    assert [path.relative_to(tmp_path).as_posix() for path in refused] == named.split()
