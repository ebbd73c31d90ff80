"""The command line as a person calls it: in this process, and as a process where that is the point."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import fields, replace
from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from tests.support.file_limit import file_limit
from tests.ui.support import handmade_runs
from vrthinker_core import system
from vrthinker_core.cli import app, main
from vrthinker_core.traces import load, to_json
from vrthinker_core.types.settings import SETTINGS, Settings, setting

Clips = tuple[Path, Path]
ROOT = Path(__file__).resolve().parents[1]
ANSWER = (
    "<Snapshot>s</Snapshot><Think>[bold]t[/bold]</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
)
CALL = '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>'
LABELS = {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}


def call(*arguments: object, stdin: str = "", encoding: str = "utf-8") -> tuple[int, str, str]:
    """A command in this process: its exit status, and what it printed as output and as errors."""
    output, errors = io.TextIOWrapper(io.BytesIO(), encoding), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["vrthinker_core", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        with redirect_stdout(output), redirect_stderr(errors), pytest.raises(SystemExit) as ended:
            main()
    output.seek(0)
    return int(ended.value.code or 0), output.read(), errors.getvalue()


def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The same from the root of the repository."""
    with chdir(ROOT):
        return subprocess.CompletedProcess(arguments, *call(*arguments, stdin=stdin))


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def compare(clips: Clips, judge: str, *options: object) -> subprocess.CompletedProcess[str]:
    return run("compare", *clips, "--prompt", "A block glides.", "--judge", judge, *options)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("script") / "script.jsonl"
    path.write_text("\n".join(json.dumps({"reply": reply}) for reply in (CALL, ANSWER)))
    return f"scripted:{path}"


def test_compare_prints_each_turn_and_then_the_verdict(clips: Clips, script: str) -> None:
    """As a process: `python -m vrthinker_core`."""
    command = [sys.executable, "-m", "vrthinker_core", "compare", *map(str, clips)]
    command += ["--prompt", "A block glides.", "--judge", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("Turn 1") < done.stdout.index("Turn 2") < done.stdout.index("Verdict")
    assert "[bold]t[/bold]" in done.stdout, "what a judge wrote is never markup"
    assert "video 1: 10 (" in done.stdout
    labels = compare(clips, script, "--json").stdout
    assert labels.count("\n") == 1
    assert list(json.loads(labels).items()) == list(LABELS.items()), "nothing else, in this order"
    measured = json.loads(compare(clips, script, "--json", "--measure").stdout)
    assert list(measured) == [*LABELS, "measured"]
    assert "\nMeasured\n" in compare(clips, script, "--measure").stdout


def test_no_text_of_a_trace_tells_the_terminal_anything(tmp_path: Path) -> None:
    trace = handmade_runs.three_turns(prompt="A ball.\x1b]0;owned\x07\x1b[2J\x9b31m\r\nIt falls.")
    (tmp_path / "run.json").write_bytes(to_json(trace))
    shown = run("replay", tmp_path / "run.json").stdout
    assert "Prompt    A ball.\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\x0d\nIt falls." in shown
    assert not set(map(ord, shown)) & {*range(9), *range(11, 32), *range(127, 160)}
    refused = run("replay", tmp_path / "other\x1b[2J.json")
    assert "\x1b" not in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("compare {missing} {two} --prompt p", "missing.mp4"),
        ("compare {folder} {two} --prompt p", "folder"),
        ("compare {empty} {two} --prompt p", "empty"),
        ("compare {one} {picture} --prompt p", "image"),
        ("compare {one} {two} --prompt=", "prompt is empty"),
        ("compare {one} {two} --prompt p --judge oracle", "There is no judge"),
        ("compare {one} {two} --prompt p --max-turns 0", "turns"),
        ("compare {one} {two} --prompt p --window many", "--window"),
        ("compare {one} {two} --prompt p --protocol french", "protocol"),
        ("compare {one} {two} --prompt p --window " + "9" * 23, "between 0 and 9007"),
        ("compare {one} {two} --prompt p --trace {missing}/run.json", "There is no folder"),
        ("compare {one} --prompt p", "video2"),
        ("replay {picture}", "This is not a VR-Thinker trace"),
        ("frames {one} --out {folder} --slots=128", "128"),
        ("frames {one} --out {folder} --slots=-1", "-1"),
        ("frames {one} --out {folder} --slots=a", "--slots a is no list of numbers."),
    ],
    ids=lambda value: value[:40],
)
def test_bad_input_is_status_2_and_one_line(
    arguments: str, said: str, clips: Clips, script: str, tmp_path: Path
) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "picture.png")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    files = ("missing.mp4", "empty", "picture.png", "folder")
    names = {file.partition(".")[0]: tmp_path / file for file in files}
    filled = arguments.format(one=clips[0], two=clips[1], **names).split()
    if filled[0] == "compare":
        filled += ["--json"] if "--judge" in filled else ["--judge", script, "--json"]
    done = run(*filled)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert said in done.stderr


def test_frames_writes_the_frames_of_the_slots(clips: Clips, tmp_path: Path) -> None:
    """And says how far it is."""
    slots = ("--protocol", "paired", "--slots", "0,16,127,16")
    done = run("frames", clips[0], *slots, "--out", tmp_path / "stills")
    assert (done.returncode, done.stderr) == (0, "frames: 3 of 3\n")
    frames = json.loads(done.stdout)["frames"]
    found = [(each["slot"], each["index"], round(each["timestamp"] * 24)) for each in frames]
    assert found == [(0, 0, 0), (16, 6, 6), (127, 47, 47), (16, 6, 6)]
    for frame in frames:
        with Image.open(frame["file"]) as picture:
            assert picture.size == (96, 64)


def test_frames_on_a_full_disk_leaves_no_file(clips: Clips, tmp_path: Path) -> None:
    with file_limit(100):
        done = run("frames", clips[0], "--slots", "0,16", "--out", tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("Cannot write slot_0")
    assert list(tmp_path.iterdir()) == []


def test_parse_reads_replies_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    records = (
        {"reply": ANSWER, "finish_reason": "stop"},
        {"reply": CALL},
        {"reply": "", "reply_gen": [["<Answer>", 1000]]},
        {"reply": "<Answer>TA=1, MQ=0, VQ=", "finish_reason": "length"},
    )
    lines = "\n".join(map(json.dumps, records))
    (tmp_path / "replies.jsonl").write_text(lines)
    from_file = run("parse", tmp_path / "replies.jsonl", "--protocol", "paired")
    from_stdin = run("parse", "-", "--protocol", "paired", stdin=f"\ufeff{lines}")
    assert from_file.returncode == 0, from_file.stderr
    assert from_file.stdout == from_stdin.stdout
    answer, asked, doubled, cut = map(json.loads, from_file.stdout.splitlines())
    assert (answer["kind"], answer["answer"]) == ("answer", LABELS)
    assert (asked["kind"], asked["indices"]) == ("tool", [10, 30])
    assert doubled["kind"] == "invalid"
    assert (cut["kind"], cut["error"]) == ("invalid", "truncated")


NO_REPLIES = {
    "no JSON": "nonsense",
    "nested deeply": '{"reply": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "too long for any memory": '{"reply": "", "reply_gen": [["x", 1000000000000000]]}',
    "no object": "7",
}


@pytest.mark.parametrize("line", NO_REPLIES.values(), ids=NO_REPLIES)
def test_parse_names_the_line_that_is_no_reply_and_counts_blank_ones(line: str) -> None:
    good = '\ufeff\n \t\r\n{"reply": "x"}\r\n\n{"reply": "y"}\n\n'
    done = run("parse", "-", "--protocol", "paired", stdin=good)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    done = run("parse", "-", "--protocol", "paired", stdin=f"{good}{line}\n")
    said = "Line 7 is no JSON object with a reply.\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_json_without_a_verdict_says_why_on_standard_error(clips: Clips, tmp_path: Path) -> None:
    (tmp_path / "script.jsonl").write_text('{"reply": "Well."}')
    judge = f"scripted:{tmp_path / 'script.jsonl'}"
    done = compare(clips, judge, "--trace", tmp_path / "run.json", "--json")
    assert (done.returncode, done.stderr) == (3, "There is no verdict: no answer.\n")
    assert json.loads(done.stdout) == dict.fromkeys(LABELS)
    unfinished = replace(load(tmp_path / "run.json"), finished=None)
    (tmp_path / "run.json").write_bytes(to_json(unfinished))
    done = run("replay", tmp_path / "run.json", "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "This run did not end: there is no verdict.\n"


FULL = "The output cannot be written: No space left on device.\n"
OUTPUTS = {
    "--help >/dev/full": (2, FULL),
    "parse - --protocol paired >/dev/full": (2, FULL),
    "--help >&-": (0, ""),
}


@pytest.mark.parametrize(("arguments", "ended"), OUTPUTS.items())
def test_a_full_output_is_one_sentence(arguments: str, ended: tuple[int, str]) -> None:
    """And a closed one is no error."""
    done = subprocess.run(
        f"{sys.executable} -m vrthinker_core {arguments}",
        cwd=ROOT, shell=True, input='{"reply": "x"}', stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == ended


def test_a_character_that_the_output_cannot_hold_is_no_error(clips: Clips, script: str) -> None:
    command = ("compare", *clips, "--prompt", "红色的球", "--judge", script)
    status, printed, errors = call(*command, encoding="latin-1")
    assert (status, errors) == (0, "")
    assert "\\u7ea2" in printed


def test_help_loads_nothing_that_takes_long() -> None:
    slow = "torch transformers gradio pydantic cv2 av numpy httpx openai PIL accelerate"
    done = run_code(
        "import runpy, sys\n"
        "sys.argv = ['vrthinker', '--help']\n"
        "try: runpy.run_module('vrthinker_core', run_name='__main__')\n"
        f"finally: print(*({{name.partition('.')[0] for name in sys.modules}} & set({slow!r}.split())), file=sys.stderr)"
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")
    for command in ("compare", "branch", "replay", "frames", "parse", "scenes", "examples"):
        assert command in done.stdout


MISSING = (
    "compare no.mp4 no.mp4 --prompt p",
    "branch {trace} no.mp4 no.mp4 --turn 1",
    "branch no.json no.mp4 no.mp4 --turn 1",
    "evaluate csv no.csv",
    "evaluate csv {table}",
    "rank no",
    "teacher --data no.csv --out {folder}",
    "train grpo --data no.csv --model a/b --out {folder}",
    "export no --to sft --out {folder}/rows.jsonl",
)


def test_a_missing_file_is_told_before_anything_slow(tmp_path: Path) -> None:
    """All commands in one process: whichever loads a slow module is named."""
    (tmp_path / "run.json").write_bytes(to_json(handmade_runs.three_turns()))
    (tmp_path / "pairs.csv").write_text("video1,video2,prompt\nno.mp4,no.mp4,p\n")
    places = {"trace": "run.json", "table": "pairs.csv", "folder": "out"}
    names = {name: tmp_path / file for name, file in places.items()}
    commands = [["vrthinker", *command.format(**names).split()] for command in MISSING]
    done = run_code(
        "import sys\n"
        "from vrthinker_core.cli import main\n"
        f"for sys.argv in {commands!r}:\n"
        "    try: main()\n"
        "    except SystemExit as end:\n"
        "        print(sys.argv[1], end.code, *{'torch', 'transformers', 'openai'} & {*sys.modules})"
    )
    told = done.stderr.splitlines()
    assert len(told) == len(MISSING), done.stderr
    assert all("no" in line and "[Errno" not in line for line in told)
    assert done.stdout.splitlines() == [f"{command.partition(' ')[0]} 2" for command in MISSING]


def test_every_setting_is_an_option(clips: Clips, script: str, tmp_path: Path) -> None:
    chosen = {
        **{"protocol": "concat", "window": "all", "max_turns": 2, "frames_per_call": 3},
        **{"max_new_tokens": 512, "temperature": 0.5, "seed": 7, "preset": "clean"},
        **{"opening": "card", "total": 64, "fit": "letterbox", "swap": "on"},
        **{"frames": "random", "opening_frames": 32},
    }
    names = {row.name for row in SETTINGS}
    assert set(chosen) == names == {field.name for field in fields(Settings)}
    options: list[object] = []
    for name, value in chosen.items():
        flag = f"--{name.replace('_', '-')}"
        options += [flag] if setting(name).is_switch else [flag, value]
    compare(clips, script, "--json", "--trace", tmp_path / "run.json", *options)
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["started"]["settings"] == chosen


def test_the_help_of_every_option_is_shown_word_for_word() -> None:
    """Square brackets would be taken for markup, and their text left out."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {"compare", "evaluate", "rank", "teacher", "train"} <= set(commands)
    wide = {"COLUMNS": "400", "TERMINAL_WIDTH": "400"}
    for name, command in commands.items():
        done = CliRunner().invoke(app, [name, "--help"], env=wide, color=False)
        shown = " ".join(done.output.replace("│", " ").split())
        texts = [getattr(parameter, "help", None) or "" for parameter in command.params]
        assert [text for text in texts if " ".join(text.split()) not in shown] == [], name


LIMITS: dict[str, int] = {
    "": 8,
    "200000 100000": 2,
    "max 100000": 8,
    "1600000 100000": 8,
    "50000 100000": 1,
    "150000 100000": 2,
    "much": 8,
}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
@pytest.mark.parametrize(("limit", "count"), LIMITS.items())
def test_a_container_may_use_the_processors_it_is_given_time_for(
    limit: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In version 2 of control groups one file, in version 1 two."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(system, "CGROUP", tmp_path)
    (tmp_path / "cpu").mkdir()
    for name, number in zip(("quota", "period"), limit.replace("max", "-1").split(), strict=False):
        (tmp_path / "cpu" / f"cpu.cfs_{name}_us").write_text(f"{number}\n")
    assert system.cpu_count() == count
    if limit:
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert system.cpu_count() == count
