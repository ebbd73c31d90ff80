"""The paper's reward: each part by its own law."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from vrthinker_core.protocols import make_protocol
from vrthinker_core.training.rewards import (
    RewardWeights,
    accuracy,
    cot_gain,
    first_accuracy,
    format_reward,
    group_rewards,
    malformation,
)
from vrthinker_core.types import (
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


def frame(slot: int) -> Thumbnail:
    return Thumbnail(FrameRef(slot, Side.FIRST), str(slot + 1), slot, 0.0, 0.04, b"", "")


def run_of(*texts: str, stop: StopReason = StopReason.ANSWERED) -> Run:
    turns = tuple(
        Turn(number, "", (frame(number),), Completion(text), PROTOCOL.parse(text))
        for number, text in enumerate(texts, start=1)
    )
    started = Started("a ball", "scripted", "concat", Settings(), (None, None))
    return Run(started, turns, Finished(stop, turns[-1].reply.verdict))


def test_a_right_rollout_that_looked_has_the_parts_of_the_paper() -> None:
    reward = group_rewards([run_of(look(ALL_WRONG), answer(RIGHT))], TRUTH)[0]
    assert (reward.format, reward.accuracy, reward.exploration) == (1.0, 1.0, 0.0)
    assert reward.gain == pytest.approx(0.2)
    assert reward.total == pytest.approx(2.2)


def test_half_the_accuracy_is_the_overall_label() -> None:
    assert accuracy(PROTOCOL.parse(answer(ONLY_OVERALL_WRONG)).verdict, TRUTH) == 0.5
    one_wrong = PROTOCOL.parse(answer("TA=2, MQ=0, VQ=2, OA=2")).verdict
    assert accuracy(one_wrong, TRUTH) == pytest.approx(0.5 + 0.5 * 2 / 3)


@given(verdicts, verdicts)
def test_accuracy_is_a_share_and_one_only_where_every_known_label_is_right(
    given_labels: Verdict, truth: Verdict
) -> None:
    value = accuracy(given_labels, truth)
    if not truth.labels:
        assert value is None
        return
    assert 0 <= value <= 1
    assert (value == pytest.approx(1)) == all(
        dict(given_labels)[each] is label for each, label in truth if label is not None
    )


def test_no_answer_is_wrong_and_an_unknown_pair_has_no_accuracy() -> None:
    assert accuracy(None, TRUTH) == 0.0
    assert accuracy(TRUTH, Verdict()) is None
    assert group_rewards([run_of(answer(RIGHT))], Verdict())[0].total is None


@given(st.lists(st.sampled_from([RIGHT, ONLY_OVERALL_WRONG, ALL_WRONG]), min_size=1, max_size=5))
def test_the_gain_telescopes_to_the_last_minus_the_first(labels: list[str]) -> None:
    run = run_of(*map(look, labels[:-1]), answer(labels[-1]))
    values = [accuracy(turn.reply.verdict, TRUTH) or 0.0 for turn in run.turns]
    steps = sum(later - earlier for earlier, later in pairwise(values))
    assert cot_gain(run, TRUTH, WEIGHTS) == pytest.approx(0.2 * steps)
    assert first_accuracy(run, TRUTH, WEIGHTS) == values[0]


def test_a_gain_that_cannot_be_known_is_none() -> None:
    silent = '<snapshot>a</snapshot><think>b</think><tool_call>{"target_frames": [2]}</tool_call>'
    assert cot_gain(run_of(silent, answer(RIGHT)), TRUTH, WEIGHTS) is None
    assert cot_gain(run_of(answer(RIGHT)), TRUTH, WEIGHTS) == 0.0
    (reward,) = group_rewards([run_of(silent, answer(RIGHT))], TRUTH)
    assert reward.total == pytest.approx(1.0)  # its accuracy alone


def test_one_turn_out_of_format_costs_the_format() -> None:
    assert format_reward(run_of(look(RIGHT), answer(RIGHT))) == 1.0
    assert format_reward(run_of("I cannot say.", answer(RIGHT))) == 0.0
    assert format_reward(run_of(look(RIGHT), stop=StopReason.TURN_LIMIT)) == 0.0


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


@pytest.mark.parametrize(
    ("looking", "bonus"), [(0, 0.0), (1, 0.5 * (0.2 - 0.1)), (2, 0.0), (5, 0.0)]
)
def test_looking_earns_only_where_the_group_looks_too_seldom(looking: int, bonus: float) -> None:
    runs = [run_of(look(RIGHT), answer(RIGHT))] * looking + [run_of(answer(RIGHT))] * (10 - looking)
    rewards = group_rewards(runs, TRUTH)
    assert [reward.exploration for reward in rewards[:looking]] == pytest.approx([bonus] * looking)
    assert all(reward.exploration == 0 for reward in rewards[looking:])
