"""Runs that are there already: from a teacher's folder and from traces, each through both filters."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.training.labelled_pairs.test_open_pairs import (
    EXAMPLE,
    LABELS,
    TRACE,
    VIDEOS,
    evaluation,
    published_rl,
    write_rows,
)
from tests.training.test_teacher import PAIRS, SCRIPTED
from vrthinker_core.drawn.teacher import write_lesson
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, TRACES, result_of, to_line
from vrthinker_core.traces import to_json
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.sft_data import open_ready_runs, taught_pairs
from vrthinker_core.training.teacher import TeacherJob, run_teacher, scripted_teacher
from vrthinker_core.types import Preference, ProtocolName, Settings, Verdict, Vote

OTHER = replace(LABELS, OA=Preference((int(LABELS.OA or 0) + 1) % 3))


def kept(data: Path | str, most: int = 9) -> tuple[list[Rollout], str]:
    said: list[str] = []
    ready = open_ready_runs(str(data))
    with ExitStack() as videos:
        found = list(ready.kept(most, said.append, videos))
        assert all(stored.read_again().prompts == stored.rollout.prompts for stored in found)
    return [stored.rollout for stored in found], said[0]


def test_traces_are_learnt_from_where_the_known_labels_are_theirs(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "right")
    shutil.copytree(EXAMPLE, tmp_path / "wrong")
    vote = Vote(datetime(2026, 1, 1, tzinfo=UTC), Verdict(OA=OTHER.OA), None)
    (tmp_path / "wrong" / "trace.json").write_bytes(to_json(replace(TRACE, vote=vote)))
    shutil.copytree(EXAMPLE, tmp_path / "without")
    (tmp_path / "without" / "first.mp4").unlink()
    rollouts, said = kept(tmp_path)
    assert [rollout.run.finished and rollout.run.finished.verdict for rollout in rollouts] == [
        LABELS
    ]
    assert not any(turn.completion.tokens for turn in rollouts[0].run.turns)
    assert [len(prompt[-1].frames) for prompt in rollouts[0].prompts] == [
        len(turn.frames) for turn in TRACE.turns
    ]
    assert set(said.rstrip(".").split("; ")) == {
        "1 of 3 runs pass the filters",
        "1 not: a label is not the known one",
        "1 not: a video cannot be read",
    }


def test_the_folder_of_an_evaluation_is_learnt_from_and_what_is_called_traces_is_taken_for_them(
    tmp_path: Path,
) -> None:
    assert len(kept(evaluation(tmp_path))[0]) == 1
    (tmp_path / "evaluation" / "run.json").unlink()
    assert open_ready_runs(str(tmp_path / "evaluation")) is None
    assert len(kept(f"traces:{tmp_path / 'evaluation'}")[0]) == 1


def test_the_labels_of_the_data_set_that_was_evaluated_count_before_the_judge_s(
    tmp_path: Path,
) -> None:
    (tmp_path / TRACES).mkdir()
    shutil.copy(EXAMPLE / "trace.json", tmp_path / TRACES / "id.json")
    (tmp_path / "run.json").touch()
    for labels, passed in ((OTHER, 0), (LABELS, 1)):
        pair = EvaluationPair("id", 1, TRACE.started.prompt, *map(str, VIDEOS), labels)
        (tmp_path / RESULTS).write_bytes(to_line(result_of(pair, TRACE, "traces/id.json")))
        assert len(kept(tmp_path)[0]) == passed


def test_what_a_judge_said_outside_its_scope_is_learnt_from_where_a_person_says_the_same(
    tmp_path: Path,
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "run")
    outside = replace(TRACE, finished=replace(TRACE.finished, verdict=None, outside_scope=True))
    for said, why in (
        (None, "no label of the pair is known"),
        (OTHER, "a label is not the known one"),
        (LABELS, ""),
    ):
        vote = said and Vote(datetime(2026, 1, 1, tzinfo=UTC), said)
        (tmp_path / "run" / "trace.json").write_bytes(to_json(replace(outside, vote=vote)))
        rollouts, told = kept(tmp_path)
        assert [rollout.run.whole_answer for rollout in rollouts] == ([] if why else [LABELS])
        assert why in told


def test_a_teachers_folder_says_which_pairs_it_was_given(tmp_path: Path) -> None:
    job = TeacherJob("script", "drawn:3")
    list(run_teacher(PAIRS, range(2), SCRIPTED, job, tmp_path / "taught"))
    rollouts, _ = kept(tmp_path / "taught")
    assert [each.pair.truth for each in rollouts] == [PAIRS.drawn(n).verdict for n in range(2)]
    assert len(kept(tmp_path / "taught", most=1)[0]) == 1
    assert taught_pairs(str(tmp_path / "taught")) == "drawn:3"
    list(run_teacher(PAIRS, range(1), SCRIPTED, TeacherJob("script", ""), tmp_path / "inner"))
    with pytest.raises(BadInput, match="does not say which pairs"):
        taught_pairs(str(tmp_path / "inner"))


def test_a_teachers_folder_may_hold_runs_of_both_protocols(tmp_path: Path) -> None:
    protocols: tuple[ProtocolName, ...] = ("concat", "paired")
    grids = tuple((protocol, make_protocol(Settings(), protocol).grid) for protocol in protocols)
    pairs = replace(PAIRS, grids=grids)
    teacher, job = scripted_teacher(pairs, write_lesson), TeacherJob("script", "drawn:3")
    made = run_teacher(pairs, range(6), teacher, job, tmp_path / "taught")
    numbers = [outcome.pair for outcome in made if outcome.kept]
    rollouts, _ = kept(tmp_path / "taught")
    spoken = [rollout.pair.protocol for rollout in rollouts]
    assert spoken == [protocols[number % 2] for number in numbers]
    assert set(spoken) == set(protocols)
    for number, rollout in zip(numbers, rollouts, strict=True):
        seen = [frame for message in rollout.prompts[-1] for frame in message.frames]
        drawn = pairs.pair(number).source([frame.ref for frame in seen])
        assert [frame.rgb for frame in seen] == [frame.rgb for frame in drawn]


def test_pairs_alone_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("video1,video2,prompt,OA\n")
    files = (tmp_path / "pairs.csv", tmp_path / "gone", write_rows(tmp_path, published_rl()))
    for data in ("drawn:1", *files):
        assert open_ready_runs(str(data)) is None
