"""The record of training: a line a step that outlives the process, read back as it was."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.support.drawn_rollouts import look
from tests.training.test_token_rows import ANSWER, labelled
from vrthinker_core import ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.metrics import METRICS, MetricsWriter, StepMetrics, read_metrics
from vrthinker_core.training.rewards import RewardWeights, group_rewards
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import Preference, Settings, Verdict

TIES = Verdict(*[Preference.TIE] * 4)
STEP = StepMetrics("grpo", 1, 2.5, 0.25, right={"TA": 0.5}, entropy=0.1)


def test_records_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    steps = [replace(STEP, step=step, kl=step / 7) for step in range(1, 4)]
    with MetricsWriter(tmp_path / "run") as writer:
        for step in steps:
            writer.write(step)
    assert read_metrics(tmp_path / "run") == steps


def test_half_a_line_of_a_killed_process_is_cut_off_and_a_step_made_again_counts_once(
    tmp_path: Path,
) -> None:
    with MetricsWriter(tmp_path) as writer:
        for step in (1, 2, 3):
            writer.write(replace(STEP, step=step))
    file = tmp_path / METRICS
    file.write_bytes(file.read_bytes() + b'{"stage": "gr')
    assert [each.step for each in read_metrics(tmp_path)] == [1, 2, 3]
    with MetricsWriter(tmp_path) as writer:
        assert len(file.read_bytes().splitlines()) == 3, "nothing is lost before it is made again"
        for step in (2, 3, 4):
            writer.write(replace(STEP, step=step, loss=9.0))
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert [each.loss for each in read_metrics(tmp_path)] == [0.25, 9.0, 9.0, 9.0]


def test_of_a_file_of_an_earlier_version_a_step_that_was_made_again_counts_once(
    tmp_path: Path,
) -> None:
    steps = [replace(STEP, step=step, loss=loss) for step, loss in ((1, 1.0), (2, 1.0), (2, 2.0))]
    lines = "".join(json.dumps(asdict(each)) + "\n" for each in steps)
    (tmp_path / METRICS).write_text(lines, "utf-8")
    with MetricsWriter(tmp_path) as writer:
        writer.write(replace(STEP, step=3))
    assert read_metrics(tmp_path) == [steps[0], steps[2], replace(STEP, step=3)]


@pytest.mark.parametrize("line", [b"[]\n", b"{}\n", b"no json\n"])
def test_a_file_of_something_else_is_named(tmp_path: Path, line: bytes) -> None:
    (tmp_path / METRICS).write_bytes(line)
    with pytest.raises(BadInput, match="no record of a training step"):
        read_metrics(tmp_path)


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="Cannot write"):
        MetricsWriter(tmp_path / "file")


def test_the_figures_of_rollouts_are_those_of_their_runs() -> None:
    pair = labelled(7)
    judge = ScriptedBackend([look(1), look(2, 3), ANSWER], protocol="paired")
    rollouts = list(play([pair], judge, Settings(), samples=2))
    rewards = group_rewards([rollout.run for rollout in rollouts], pair.truth)
    step = STEP.with_rollouts(list(zip(rollouts, rewards, strict=True)), RewardWeights())
    assert (step.calls, step.frames) == (2, 8 + 2 + 4)
    assert step.right == {name: float(label == 0) for name, label in pair.truth.labels.items()}
    assert step.reward_format == 1
    assert step.reward_accuracy == rewards[0].accuracy == step.first_accuracy
    assert step.reward_total == rewards[0].total
    assert step.tokens == sum(turn.completion.new_tokens or 0 for turn in rollouts[0].run.turns)
    assert "kl" not in step.figures
    assert step.figures["right_TA"] == step.right["TA"]


def test_the_first_labels_are_weighed_as_the_last_ones_are() -> None:
    pair = replace(labelled(7), truth=replace(TIES, OA=Preference.FIRST))
    (rollout,) = play([pair], ScriptedBackend([look(1), ANSWER], protocol="paired"), Settings())
    weights = RewardWeights(overall=0.9)
    (reward,) = group_rewards([rollout.run], pair.truth, weights)
    step = STEP.with_rollouts([(rollout, reward)], weights)
    assert step.reward_accuracy == step.first_accuracy == pytest.approx(0.1)


def test_curves_without_trackio_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(BadInput, match="or train without --set trackio=true"):
        MetricsWriter(tmp_path, "run")


def test_curves_are_kept_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trackio_utils = pytest.importorskip("trackio.utils")
    storage = pytest.importorskip("trackio.sqlite_storage")
    for module in (trackio_utils, storage):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "curves")
    for name in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    for steps in ((1, 2), (2, 3)):  # it was killed after step 2, and goes on after step 1
        with MetricsWriter(tmp_path / "out", "run") as writer:
            for step in steps:
                writer.write(replace(STEP, step=step, loss=0.5**step))
    (run,) = storage.SQLiteStorage.get_runs("vr-thinker")
    logs = storage.SQLiteStorage.get_logs("vr-thinker", run)
    assert [(entry["step"], entry["grpo/loss"], entry["grpo/right_TA"]) for entry in logs] == [
        (step, 0.5**step, 0.5) for step in (1, 2, 3)
    ]
