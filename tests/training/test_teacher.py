"""A teacher: every run an ordinary trace, what passes the filters learnt from, and nothing made twice."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.drawn_rollouts import answer, look
from tests.test_cli import ROOT, call
from tests.training.tables import PAIRED, SAID, numbered_rows, write_table
from tests.training.test_token_rows import Nano, nano
from vrthinker_core import ScriptedBackend, export
from vrthinker_core.backends.base import Conversation
from vrthinker_core.drawn.world import DrawnPair
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.traces import jpeg_size, load, to_json
from vrthinker_core.training.filters import OUTCOMES, Outcome, Reason, read_outcomes
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.training.sft import token_rows
from vrthinker_core.training.stages import passing, run_readers, runs_folder, taught_pairs
from vrthinker_core.training.teacher import (
    Teacher,
    run_teacher,
    scripted_teacher,
)
from vrthinker_core.training.traces import NotForTraining
from vrthinker_core.types import Preference, ProtocolName, Settings, Verdict

__all__ = ["nano"]
PAIRS = PairSet.drawn(3)
ANSWERER = ScriptedBackend([SAID], protocol="paired")
SCRIPT = json.dumps({"reply": SAID, "protocol": "paired"})


def write_replies(drawn: DrawnPair, protocol: ProtocolName) -> Sequence[str]:
    return look(drawn.seed % 128), answer(drawn.verdict.labels)


SCRIPTED = scripted_teacher(write_replies)
KNOWING = Teacher("a script", lambda: SCRIPTED, PAIRS, "drawn:3")
ANSWERING = replace(KNOWING, open=lambda: ANSWERER)


def test_a_stopped_teacher_goes_on_without_making_anything_twice(tmp_path: Path) -> None:
    asked: list[int] = []

    def judge(pair: LabelledPair) -> ScriptedBackend:
        asked.append(pair.seed)
        return SCRIPTED(pair)  # type: ignore[return-value]

    teacher, out = replace(KNOWING, open=lambda: judge), tmp_path / "stopped"
    whole = list(run_teacher(KNOWING, range(4), tmp_path / "whole"))
    for outcome in run_teacher(teacher, range(4), out):
        if outcome.pair == 1:
            break
    file = out / OUTCOMES
    file.write_bytes(file.read_bytes() + b'{"pair": 2, "sam')  # as a killed process leaves it
    asked.clear()
    list(run_teacher(teacher, range(4), out))
    assert set(asked) == {2, 3}
    assert read_outcomes(out) == whole
    for outcome in whole:
        trace = load(out / outcome.file)
        assert (outcome.kept, trace.finished.verdict) == (True, PAIRS.pair(outcome.pair).truth)
        assert [len(turn.frames) for turn in trace.turns] == [8, 2]
        shown = [frame for turn in trace.turns for frame in turn.frames]
        assert {jpeg_size(frame.jpeg) for frame in shown} == {(112, 112)}
    done = run_teacher(replace(teacher, open=pytest.fail), range(4), out)
    assert list(done) == [], "no judge is opened for nothing"


def test_once_it_is_stopped_nothing_is_begun_and_what_was_played_is_kept(tmp_path: Path) -> None:
    made: list[Outcome] = []
    teacher = replace(ANSWERING, samples=2, live=6)
    for outcome in run_teacher(teacher, range(9), tmp_path, lambda: bool(made)):
        made.append(outcome)
    played = [(outcome.pair, outcome.sample) for outcome in made]
    assert played == list(product(range(len(made) // 2), range(2)))
    assert len(made) < 2 * 9
    assert read_outcomes(tmp_path) == made


@dataclass(frozen=True)
class Remote(ScriptedBackend):
    """A server whose first reply takes as long as a test likes."""

    streams: bool = True
    pairs_in_hand: int = 8
    first: threading.Lock = field(default_factory=threading.Lock)
    may_end: threading.Event = field(default_factory=threading.Event)

    def open_conversation(self) -> Conversation:
        if self.first.acquire(blocking=False):
            assert self.may_end.wait(30), "every other pair waits for the slowest"
        return ScriptedBackend.open_conversation(self)


def test_at_a_server_no_pair_waits_for_the_slowest(tmp_path: Path) -> None:
    judge, order = Remote([SAID], "paired"), []
    teacher = replace(KNOWING, open=lambda: judge, samples=2, live=4)
    for outcome in run_teacher(teacher, range(6), tmp_path):
        order.append((outcome.pair, outcome.sample))
        if len(order) == 11:
            judge.may_end.set()
    assert order[-1][0] in (0, 1), "one of the first, whichever thread was quicker"
    assert sorted(order) == list(product(range(6), range(2)))
    alone = run_teacher(replace(ANSWERING, samples=2), range(6), tmp_path / "alone")
    assert read_outcomes(tmp_path) == list(alone)


@pytest.mark.parametrize(
    "other",
    [{"name": "x"}, {"data": "drawn:4"}, {"settings": Settings(seed=1)}, {"samples": 2}],
)
def test_runs_of_another_teacher_are_never_mixed(other: dict[str, Any], tmp_path: Path) -> None:
    list(run_teacher(KNOWING, range(1), tmp_path))
    with pytest.raises(BadInput, match="runs with another value of"):
        list(run_teacher(replace(KNOWING, **other), range(1), tmp_path))
    (tmp_path / OUTCOMES).unlink()
    with pytest.raises(BadInput, match="other files"):
        list(run_teacher(KNOWING, range(1), tmp_path))
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match="Cannot write"):
        list(run_teacher(KNOWING, range(1), tmp_path / "letter.txt" / "below"))


def test_a_pair_that_cannot_be_played_costs_itself_alone(tmp_path: Path) -> None:
    table = write_table(tmp_path, numbered_rows("A", "B", "word " * 9000))
    (tmp_path / "1b.mp4").write_bytes((tmp_path / "1b.mp4").read_bytes()[:400])
    judge = replace(ANSWERER, context_length=8000)
    with PairSet.of_rows(read_dataset("csv", table), PAIRED) as pairs:
        teacher = replace(KNOWING, open=lambda: judge, pairs=pairs)
        made = list(run_teacher(teacher, range(3), tmp_path / "out"))
        assert [outcome.reason for outcome in made] == ["", Reason.VIDEO, Reason.CONTEXT]
        assert made[1].sentence.startswith("Row 2: Video 2: 1b.mp4")
        assert made[2].sentence.startswith("Row 3: The conversation has 11")
        clips = load(tmp_path / "out" / made[0].file).started.clips
        assert [clip and clip.name for clip in clips] == ["0a.mp4", "0b.mp4"]
        write_table(tmp_path, [("1b.mp4", "1b.mp4", "p", "1", "1", "1", "1")], name="mended.csv")
        again = list(run_teacher(teacher, range(3), tmp_path / "out"))
    assert [(outcome.pair, outcome.reason) for outcome in again] == [(1, "")], "too long for ever"


def test_outside_its_scope_a_teacher_gives_lessons_and_no_verdict(tmp_path: Path) -> None:
    """Training compares the labels of its replies with the known ones. Nothing else may take them for a verdict."""
    told = [(f"{n}a.mp4", f"{n}b.mp4", "p", str(n), "", "", "") for n in (1, 2)]
    table = write_table(tmp_path, told)
    judge = ScriptedBackend([answer({"TA": 1, "VQ": 2, "MQ": 2, "OA": 1})], "paired", scope="drawn")
    with PairSet.of_rows(read_dataset("csv", table), PAIRED) as pairs:
        teacher = replace(KNOWING, open=lambda: judge, pairs=pairs)
        made = list(run_teacher(teacher, range(2), tmp_path / "out"))
        assert [outcome.reason for outcome in made] == ["", Reason.LABELS]
        assert [outcome.given["OA"] for outcome in made] == [1, 1]
        kept, wrong = rollouts(tmp_path / "out")
    assert (kept.correct, wrong.correct) == (True, False)
    for outcome in made:
        trace = load(tmp_path / "out" / outcome.file)
        assert (trace.finished.outside_scope, trace.finished.verdict) == (True, None)
        assert trace.last_labels == Verdict(*map(Preference, (1, 2, 2, 1)))


def rollouts(out: Path, *, keep_tokens: bool = True) -> list[Rollout]:
    with ExitStack() as videos:
        return [read() for read in run_readers([out], videos, keep_tokens=keep_tokens)]


def test_a_run_is_never_learnt_from_over_another_pair(tmp_path: Path) -> None:
    table = write_table(tmp_path, numbered_rows("p"))
    with PairSet.of_rows(read_dataset("csv", table), PAIRED) as pairs:
        list(run_teacher(replace(ANSWERING, pairs=pairs), range(1), tmp_path / "out"))
    assert len(rollouts(tmp_path / "out")) == 1
    shutil.copy(tmp_path / "0a.mp4", tmp_path / "0b.mp4")
    with pytest.raises(VideoError, match=r"0b\.mp4"):
        rollouts(tmp_path / "out")
    (outcome,) = run_teacher(KNOWING, range(1), tmp_path / "drawn")
    trace = load(tmp_path / "drawn" / outcome.file)
    first, second = trace.started.clips
    for clips in ((second, first), (replace(first, name="drawn-3-a"), second)):
        other = replace(trace, started=replace(trace.started, clips=clips))
        (tmp_path / "drawn" / outcome.file).write_bytes(to_json(other))
        with pytest.raises((NotForTraining, VideoError)):
            rollouts(tmp_path / "drawn")


def test_own_runs_come_back_token_for_token(nano: Nano, tmp_path: Path) -> None:
    (rollout,) = play([PAIRS.pair(0)], nano, Settings())
    teacher = Teacher("nano", lambda: nano, PAIRS, keep_all=False)
    (outcome,) = run_teacher(teacher, range(1), tmp_path)
    end = load(tmp_path / outcome.file).finished
    assert (end.outside_scope, end.verdict) == (False, PAIRS.pair(0).truth), (
        "what is drawn in memory is drawn, too"
    )
    (stored,) = rollouts(tmp_path)
    assert list(token_rows(stored, nano.loaded)) == list(token_rows(rollout, nano.loaded))
    sent, again = (
        [(message.text, *(f.rgb for f in message.frames)) for prompt in each for message in prompt]
        for each in (rollout.prompts, stored.prompts)
    )
    assert again == sent


def test_outcomes_are_read_back_whatever_they_say(tmp_path: Path) -> None:
    (tmp_path / OUTCOMES).write_text(
        '{"format": "vr-thinker-outcomes/1"}\n' + json.dumps({"pair": 1}) + "\n"
    )
    with pytest.raises(BadInput, match="Line 2"):
        read_outcomes(tmp_path)
    with pytest.raises(BadInput, match="no runs of a teacher"):
        read_outcomes(tmp_path / "gone")
    assert Outcome(1, 0, {}).kept


def test_the_command_says_what_can_be_learnt_from_and_others_learn_from_it(tmp_path: Path) -> None:
    script, out, rows = tmp_path / "script.jsonl", tmp_path / "out", tmp_path / "rows.jsonl"
    script.write_text(SCRIPT)
    told = [(f"{n}a.mp4", f"{n}b.mp4", "p", "1", "0", str(n), "1") for n in (1, 2)]
    table = write_table(tmp_path, told)
    asked = ("teacher", "--judge", f"scripted:{script}", "--out", out)
    done = call(*asked, "--data", table)
    assert done[0] == 0, done
    assert "1 of 2 runs kept, of 1 of 2 pairs." in done[1]
    assert "MQ: 1 of 2 well-formed runs are right; tie" in done[1]
    assert call(*asked, "--data", table)[:2] == done[:2]
    endless = "Drawn and mixed pairs never end: say how many with --pairs.\n"
    assert call(*asked, "--data", "drawn:1") == (2, "", endless)
    assert export([out], "sft", rows).rows == 1, "a wrong label teaches nothing"
    assert export([out], "rl", rows).rows == 2
    written = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    assert [row["answer"] for row in written] == [f"TA=1, VQ=0, MQ={n}, OA=1" for n in (1, 2)]
    assert all(Path(path).is_file() for row in written for path in row["image"])
    said: list[str] = []
    for data in (out, f"traces:{out / 'traces'}"):
        with ExitStack() as videos:
            readers = run_readers([runs_folder(str(data))], videos, keep_tokens=False)
            assert len(list(passing(readers, 9, said.append))) == 1
    assert said == ["1 of 2 runs pass the filters; 1 not: a label is not the known one."] * 2
    scripted = ("teacher", "--judge", "scripted", "--pairs", "2", "--out", tmp_path / "concat")
    assert "knows only drawn pairs" in call(*scripted, "--data", table)[2]


def test_a_teachers_folder_may_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, out = tmp_path / "script.jsonl", tmp_path / "out"
    script.write_text(SCRIPT)
    table = os.path.relpath(write_table(tmp_path, numbered_rows("p")), ROOT)
    asked = ("teacher", "--judge", f"scripted:{script}", "--data", table, "--out", out)
    monkeypatch.chdir(ROOT)
    assert call(*asked)[0] == 0
    deep = tmp_path.joinpath(*ROOT.parts[1:])  # From where that path leads nowhere
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert taught_pairs(str(out)) == str(ROOT / table)
