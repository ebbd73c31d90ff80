"""A teacher: every run is an ordinary trace, right runs are learnt from, none is made twice."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import pytest

from tests.support.drawn_rollouts import answer, look
from tests.test_cli import call
from tests.training.tables import PAIRED, SAID, numbered_rows, write_table
from tests.training.test_token_rows import Nano, nano
from vrthinker_core import ScriptedBackend, export
from vrthinker_core.backends.base import Conversation
from vrthinker_core.drawn.world import DrawnPair
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.traces import load, to_json
from vrthinker_core.training.filters import OUTCOMES, Reason, read_outcomes
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import LabelledPair, Rollout, play
from vrthinker_core.training.sft import token_rows
from vrthinker_core.training.stages import passing, run_readers, taught_pairs
from vrthinker_core.training.teacher import Teacher, run_teacher, scripted_teacher
from vrthinker_core.training.traces import NotForTraining
from vrthinker_core.types import ProtocolName, Settings

__all__ = ["nano"]
PAIRS = PairSet.drawn(3)
ANSWERER = ScriptedBackend([SAID], protocol="paired")
SCRIPT = json.dumps({"reply": SAID, "protocol": "paired"})


def write_replies(drawn: DrawnPair, protocol: ProtocolName) -> Sequence[str]:
    return look(drawn.seed % 128), answer(drawn.verdict.labels)


SCRIPTED = scripted_teacher(write_replies)
KNOWING = Teacher("a script", lambda: SCRIPTED, PAIRS, "drawn:3")


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
    done = run_teacher(replace(teacher, open=pytest.fail), range(4), out)
    assert list(done) == [], "no judge is opened for nothing"


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


def test_runs_of_another_teacher_are_never_mixed(tmp_path: Path) -> None:
    list(run_teacher(KNOWING, range(1), tmp_path))
    changes = {"name": "x", "data": "drawn:4", "settings": Settings(seed=1), "samples": 2}
    for name, value in changes.items():
        with pytest.raises(BadInput, match="runs with another value of"):
            list(run_teacher(replace(KNOWING, **{name: value}), range(1), tmp_path))
    with (tmp_path / OUTCOMES).open("a") as file:
        file.write('{"pair": 1}\n')
    with pytest.raises(BadInput, match="Line 3"):
        read_outcomes(tmp_path)
    (tmp_path / OUTCOMES).unlink()
    with pytest.raises(BadInput, match="other files"):
        list(run_teacher(KNOWING, range(1), tmp_path))


def test_a_pair_that_cannot_be_played_costs_itself_alone(tmp_path: Path) -> None:
    table = write_table(tmp_path, numbered_rows("A", "B", "word " * 9000))
    (tmp_path / "1b.mp4").write_bytes((tmp_path / "1b.mp4").read_bytes()[:400])
    judge = replace(ANSWERER, context_length=8000)
    with PairSet.of_rows(read_dataset("csv", table), PAIRED) as pairs:
        teacher = replace(KNOWING, open=lambda: judge, pairs=pairs)
        made = list(run_teacher(teacher, range(3), tmp_path / "out"))
        assert [outcome.reason for outcome in made] == ["", Reason.VIDEO, Reason.CONTEXT]
        assert made[1].sentence.startswith("Row 2: Video 2: 1b.mp4")
        write_table(tmp_path, [("1b.mp4", "1b.mp4", "p", "1", "1", "1", "1")], name="mended.csv")
        again = list(run_teacher(teacher, range(3), tmp_path / "out"))
    assert [(outcome.pair, outcome.reason) for outcome in again] == [(1, "")], "too long for ever"


def test_outside_its_scope_a_teacher_gives_lessons_and_no_verdict(tmp_path: Path) -> None:
    rows = [(f"{n}a.mp4", f"{n}b.mp4", "p", str(n), "", "", "") for n in (1, 2)]
    table = write_table(tmp_path, rows)
    judge = ScriptedBackend([answer({"TA": 1, "VQ": 2, "MQ": 2, "OA": 1})], "paired", scope="drawn")
    with PairSet.of_rows(read_dataset("csv", table), PAIRED) as pairs:
        teacher = replace(KNOWING, open=lambda: judge, pairs=pairs)
        made = list(run_teacher(teacher, range(2), tmp_path / "out"))
        assert [outcome.reason for outcome in made] == ["", Reason.LABELS]
        kept, wrong = rollouts(tmp_path / "out")
    assert (kept.correct, wrong.correct) == (True, False)
    for outcome in made:
        trace = load(tmp_path / "out" / outcome.file)
        assert (trace.finished.outside_scope, trace.finished.verdict) == (True, None)


def rollouts(out: Path, *, keep_tokens: bool = True) -> list[Rollout]:
    with ExitStack() as videos:
        return [read() for read in run_readers([out], videos, keep_tokens=keep_tokens)]


def test_a_run_is_never_learnt_from_over_another_pair(tmp_path: Path) -> None:
    table = write_table(tmp_path, numbered_rows("p"))
    with PairSet.of_rows(read_dataset("csv", table), PAIRED) as pairs:
        list(
            run_teacher(
                replace(KNOWING, open=lambda: ANSWERER, pairs=pairs), range(1), tmp_path / "out"
            )
        )
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
    assert not load(tmp_path / outcome.file).finished.outside_scope, "drawn in memory is drawn, too"
    (stored,) = rollouts(tmp_path)
    assert list(token_rows(stored, nano.loaded)) == list(token_rows(rollout, nano.loaded))
    sent, again = (
        [(message.text, *(f.rgb for f in message.frames)) for prompt in each for message in prompt]
        for each in (rollout.prompts, stored.prompts)
    )
    assert again == sent


def test_the_command_says_what_can_be_learnt_from_and_others_learn_from_it(tmp_path: Path) -> None:
    script, out, rows = tmp_path / "script.jsonl", tmp_path / "out", tmp_path / "rows.jsonl"
    script.write_text(SCRIPT)
    told = [(f"{n}a.mp4", f"{n}b.mp4", "p", "1", "0", str(n), "1") for n in (1, 2)]
    table = write_table(tmp_path, told)
    asked = ("teacher", "--judge", f"scripted:{script}", "--out", out)
    done = call(*asked, "--data", table)
    assert done[0] == 0, done
    assert "1 of 2 runs kept, of 1 of 2 pairs." in done[1]
    assert call(*asked, "--data", table)[:2] == done[:2]
    endless = "Drawn and mixed pairs never end: say how many with --pairs.\n"
    assert call(*asked, "--data", "drawn:1") == (2, "", endless)
    assert export([out], "sft", rows).rows == 1, "a wrong label teaches nothing"
    assert export([out], "rl", rows).rows == 2
    assert taught_pairs(str(out)) == str(table)
    said: list[str] = []
    with ExitStack() as videos:
        readers = run_readers([out / "traces"], videos, keep_tokens=False)
        assert len(list(passing(readers, 9, said.append))) == 1
    assert said == ["1 of 2 runs pass the filters; 1 not: a label is not the known one."]
    scripted = ("teacher", "--judge", "scripted", "--pairs", "2", "--out", tmp_path / "concat")
    assert "knows only drawn pairs" in call(*scripted, "--data", table)[2]
