"""The paper's reward, each part by its own law, and the record of training: a line a step that outlives the process."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.drawn_rollouts import look as paired_look
from tests.training.test_token_rows import ANSWER, labelled
from vrthinker_core import ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.training.metrics import METRICS, MetricsWriter, StepMetrics, read_metrics
from vrthinker_core.training.rewards import (
    RewardWeights,
    accuracy,
    cot_gain,
    first_accuracy,
    format_reward,
    group_rewards,
    malformation,
)
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import (
    Dimension,
    FrameRef,
    Preference,
    Run,
    Settings,
    Side,
    StopReason,
    Thumbnail,
    Turn,
    Verdict,
)
from vrthinker_core.types.events import Finished, Started
from vrthinker_core.types.messages import Completion

PROTOCOL = make_protocol(Settings(), "concat")
TRUTH = Verdict(TA=Preference.FIRST, MQ=Preference.TIE, VQ=Preference.SECOND, OA=Preference.SECOND)
RIGHT = "TA=1, MQ=0, VQ=2, OA=2"
ONLY_OVERALL_WRONG = "TA=1, MQ=0, VQ=2, OA=1"
ALL_WRONG = "TA=2, MQ=1, VQ=1, OA=1"
WEIGHTS = RewardWeights()
verdicts = st.builds(Verdict, *[st.none() | st.sampled_from(Preference)] * 4)


def look(labels: str) -> str:
    call = '{"name": "select_frames", "arguments": {"target_frames": [2, 50]}}'
    said = f"<recommend answer>{labels}, CF=2</recommend answer><tool_call>{call}</tool_call>"
    return f"<snapshot>a</snapshot><think>b</think>{said}"


def answer(labels: str) -> str:
    return f"<snapshot>a</snapshot><think>b</think><final answer>{labels}</final answer>"


def run_of(*texts: str, stop: StopReason = StopReason.ANSWERED) -> Run:
    shown = (Thumbnail(FrameRef(1, Side.FIRST), "2", 1, 0.0, 0.04, b"", ""),)
    turns = tuple(
        Turn(number, "", shown, Completion(text), PROTOCOL.parse(text))
        for number, text in enumerate(texts, start=1)
    )
    started = Started("a ball", "scripted", "concat", Settings(), (None, None))
    return Run(started, turns, Finished(stop, turns[-1].reply.verdict))


@given(verdicts, verdicts)
def test_half_of_the_accuracy_is_the_overall_label(said: Verdict, truth: Verdict) -> None:
    right = {each: dict(said)[each] is label for each, label in truth if label is not None}
    overall = right.pop(Dimension.OA, None)
    others = sum(right.values()) / len(right) if right else None
    parts = [part for part in (overall, others) if part is not None]
    assert accuracy(said, truth) == (pytest.approx(sum(parts) / len(parts)) if parts else None)
    assert accuracy(None, TRUTH) == 0.0
    assert group_rewards([run_of(answer(RIGHT))], Verdict())[0].total is None


@given(st.lists(st.sampled_from([RIGHT, ONLY_OVERALL_WRONG, ALL_WRONG]), min_size=1, max_size=5))
def test_the_gain_telescopes_to_the_last_minus_the_first(labels: list[str]) -> None:
    run = run_of(*map(look, labels[:-1]), answer(labels[-1]))
    values = [accuracy(turn.reply.verdict, TRUTH) or 0.0 for turn in run.turns]
    steps = sum(later - earlier for earlier, later in pairwise(values))
    assert cot_gain(run, TRUTH, WEIGHTS) == pytest.approx(0.2 * steps)
    assert first_accuracy(run, TRUTH, WEIGHTS) == values[0]


def test_the_total_is_the_sum_of_what_can_be_known() -> None:
    (right,) = group_rewards([run_of(look(ALL_WRONG), answer(RIGHT))], TRUTH)
    assert (right.format, right.accuracy, right.exploration) == (1.0, 1.0, 0.0)
    assert (right.gain, right.total) == (pytest.approx(0.2), pytest.approx(2.2))
    silent = '<snapshot>a</snapshot><think>b</think><tool_call>{"target_frames": [2]}</tool_call>'
    assert cot_gain(run_of(answer(RIGHT)), TRUTH, WEIGHTS) == 0.0
    (reward,) = group_rewards([run_of(silent, answer(RIGHT))], TRUTH)
    assert (reward.gain, reward.total) == (None, pytest.approx(1.0)), "its accuracy alone"


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ("<snapshot>a</snapshot>", "no closed snapshot"),
        ("</think>", "no closed think"),
        ("<think>b</think>", "no closed think"),
        ("</tool_call>", "no closed tool_call"),
        (", CF=2", "no labels with a confidence"),
        ("</recommend answer>", "no closed recommended answer"),
        ("</final answer>", "no closed answer"),
    ],
)
def test_what_the_reader_forgives_is_still_not_well_formed(broken: str, what: str) -> None:
    texts = look(RIGHT), answer(RIGHT)
    run = run_of(*(text.replace(broken, "") for text in texts))
    place = 1 if broken == "</final answer>" else 0
    assert what in malformation(run.turns[place], "concat")
    assert format_reward(run) == 0.0
    assert format_reward(run_of(*texts)) == 1.0
    assert format_reward(run_of(texts[0], stop=StopReason.TURN_LIMIT)) == 0.0


@pytest.mark.parametrize(
    ("looking", "bonus"), [(0, 0.0), (1, 0.5 * (0.2 - 0.1)), (2, 0.0), (5, 0.0)]
)
def test_looking_earns_only_where_the_group_looks_too_seldom(looking: int, bonus: float) -> None:
    runs = [run_of(look(RIGHT), answer(RIGHT))] * looking + [run_of(answer(RIGHT))] * (10 - looking)
    rewards = group_rewards(runs, TRUTH)
    assert [reward.exploration for reward in rewards[:looking]] == pytest.approx([bonus] * looking)
    assert all(reward.exploration == 0 for reward in rewards[looking:])


TRUTHS = replace(Verdict(*[Preference.TIE] * 4), OA=Preference.FIRST)
STEP = StepMetrics("grpo", 1, 2.5, 0.25, right={"TA": 0.5}, entropy=0.1)


def test_half_a_line_is_cut_off_and_a_step_made_again_counts_once(tmp_path: Path) -> None:
    steps = [replace(STEP, step=step, kl=step / 7) for step in (1, 2, 3)]
    file = tmp_path / METRICS
    with MetricsWriter(tmp_path) as writer:
        for step in steps:
            writer.write(step)
    file.write_bytes(file.read_bytes() + b'{"stage": "gr')
    assert read_metrics(tmp_path) == steps
    with MetricsWriter(tmp_path) as writer:
        assert len(file.read_bytes().splitlines()) == 3, "nothing is lost before it is made again"
        for number in (2, 3, 4):
            writer.write(replace(STEP, step=number, loss=inf))  # As it may become
    assert [each.step for each in read_metrics(tmp_path)] == [1, 2, 3, 4]
    assert [each.loss for each in read_metrics(tmp_path)] == [0.25, inf, inf, inf]
    for line in ("[]", "{}", "no json"):
        file.write_text(f"{line}\n")
        with pytest.raises(BadInput, match="no record of a training step"):
            read_metrics(tmp_path)


def test_the_figures_of_rollouts_are_those_of_their_runs() -> None:
    pair, weights = replace(labelled(7), truth=TRUTHS), RewardWeights(overall=0.9)
    judge = ScriptedBackend([paired_look(1), paired_look(2, 3), ANSWER], protocol="paired")
    rollouts = list(play([pair], judge, Settings(), samples=2))
    rewards = group_rewards([rollout.run for rollout in rollouts], pair.truth, weights)
    step = STEP.with_rollouts(list(zip(rollouts, rewards, strict=True)), weights)
    assert (step.calls, step.frames) == (2, 8 + 2 + 4)
    assert step.right == {"TA": 1, "MQ": 1, "VQ": 1, "OA": 0}
    assert step.reward_format == 1
    assert step.reward_accuracy == step.first_accuracy == pytest.approx(0.1)
    assert step.reward_total == rewards[0].total
    assert step.tokens == sum(turn.completion.new_tokens or 0 for turn in rollouts[0].run.turns)
    assert "kl" not in step.figures
    assert step.figures["right_TA"] == step.right["TA"]


def test_curves_need_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(BadInput, match="or train without --set trackio=true"):
        MetricsWriter(tmp_path, "run")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadInput, match="Cannot write"):
        MetricsWriter(tmp_path / "file")


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
    found = [(entry["step"], entry["grpo/loss"], entry["grpo/right_TA"]) for entry in logs]
    assert found == [(step, 0.5**step, 0.5) for step in (1, 2, 3)]
