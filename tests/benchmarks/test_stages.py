"""What the study of the stages counts: shares and their intervals, changed calls, swapped sides, what first frames hide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.benchmarks.stages import Measured, over_runs
from tests.benchmarks.tools.changed_calls import ChangedCalls, evenly_spread, random_frames
from tests.benchmarks.tools.drawn_measures import swapped, unseen_pairs
from tests.benchmarks.tools.judge_scores import Share, same_when_swapped, sampled, scores
from vrthinker_core import ScriptedBackend, Settings
from vrthinker_core.batch import stream_one_by_one
from vrthinker_core.protocols import make_protocol
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.types import Dimension, Side
from vrthinker_core.types.order import swap_verdict

WORDS = "<Snapshot>\n</Snapshot>\n<Think>\n</Think>\n"
LOOK = (
    WORDS
    + '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [20, 40]}}</tool_call>'
)
ALWAYS_FIRST = WORDS + "<Answer>TA=1, VQ=1, MQ=1, OA=1</Answer>"
PAIRS = unseen_pairs(40)


class BatchScript(ScriptedBackend):
    """A script that generates for many at once."""

    stream_batch = staticmethod(stream_one_by_one)


def rollouts(*replies: str, pairs: int = 4, sides_swapped: bool = False) -> list[Rollout]:
    judged = PAIRS.labelled[:pairs]
    return list(
        play(
            swapped(judged) if sides_swapped else judged,
            BatchScript(replies, protocol="paired"),
            Settings(),
        )
    )


def slots(rollout: Rollout, turn: int) -> list[int]:
    return [
        frame.ref.slot for frame in rollout.run.turns[turn].frames if frame.ref.side is Side.FIRST
    ]


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (485, 500, 0.9511, 0.9817),
    ],
)
def test_intervals_are_wilson_s(count: int, of: int, low: float, high: float) -> None:
    assert Share(count, of).interval == pytest.approx((low, high), abs=1e-4)


def test_nothing_counted_says_nothing() -> None:
    assert (Share(0, 0).interval, str(Share(0, 0))) == ((0.0, 1.0), "–")


def test_a_changed_call_shows_the_changed_frames_and_the_judge_reads_so() -> None:
    protocol = make_protocol(Settings(), "paired")
    judge = ChangedCalls(
        BatchScript((LOOK, ALWAYS_FIRST), protocol="paired"), protocol, evenly_spread(2)
    )
    (rollout,) = play(PAIRS.labelled[:1], judge, Settings())
    assert slots(rollout, 1) == [32, 96]
    assert "[32, 96]" in rollout.run.turns[0].reply.text


def test_random_frames_are_as_many_and_the_same_for_the_same_reply() -> None:
    change = random_frames(3)
    assert change([20, 40], LOOK) == change([1, 2], LOOK) != change([20, 40], ALWAYS_FIRST)
    assert len(set(change(range(12), LOOK))) == 12


def test_frames_in_the_place_of_others_are_new_ones_too() -> None:
    first = {ref.slot for ref in make_protocol(Settings(), "paired").opening_refs}
    assert not first & {slot for count in (2, 5, 12, 40) for slot in evenly_spread(count)([], LOOK)}
    assert not first & {slot for seed in range(20) for slot in random_frames(seed)(range(12), LOOK)}


def test_scores_count_what_the_runs_say() -> None:
    found = scores(rollouts(LOOK, ALWAYS_FIRST, pairs=40))
    truth = [dict(pair.verdict) for pair in PAIRS.drawn]
    for dimension in Dimension:
        assert found.right[dimension] == Share(sum(labels[dimension] == 1 for labels in truth), 40)
    assert (found.format.count, found.turns, found.pairs_of_frames) == (40, 2.0, 6.0)


def test_a_stage_over_several_runs_counts_all_their_pairs() -> None:
    found = [
        Measured(
            f"grpo, run {k}",
            scores(rollouts(LOOK, ALWAYS_FIRST, pairs=10 * k)),
            float(k),
            {"p": Share(k, 4)},
        )
        for k in (1, 3)
    ]
    whole = over_runs("grpo, all runs", found)
    assert whole.scores.all_four == Share(sum(each.scores.all_four.count for each in found), 40)
    assert whole.scores.right[Dimension.TA].of == 40
    assert (whole.seconds, whole.extra["p"], whole.extra["runs"]) == (2.0, Share(4, 8), "2")
    assert whole.row().startswith("| grpo, all runs | 1.000 ")


def test_pass_at_k_needs_one_right_sample() -> None:
    one, other = rollouts(ALWAYS_FIRST)[:2]
    assert one.run.finished
    assert one.run.finished.verdict
    right = replace(one, pair=replace(one.pair, truth=one.run.finished.verdict))
    wrong = replace(other, pair=replace(other.pair, truth=swap_verdict(one.run.finished.verdict)))
    assert sampled([wrong, right, wrong, wrong], 2) == (0.25, Share(1, 2))


def test_a_judge_that_always_prefers_the_first_side_is_never_the_same_when_swapped() -> None:
    assert same_when_swapped(
        rollouts(ALWAYS_FIRST), rollouts(ALWAYS_FIRST, sides_swapped=True)
    ) == Share(0, 4)


def test_swapped_pairs_show_the_other_side_and_have_the_swapped_truth() -> None:
    pair, other = PAIRS.labelled[0], swapped(PAIRS.labelled[:1])[0]
    refs = make_protocol(Settings(), "paired").opening_refs
    assert [frame.rgb for frame in other.source(refs)] == [
        frame.rgb for frame in (*pair.source(refs)[4:], *pair.source(refs)[:4])
    ]
    assert [frame.ref for frame in other.source(refs)] == list(refs)
    assert swapped([other])[0].truth == pair.truth


def test_first_frames_hide_some_flaws_and_only_those_of_picture_and_motion() -> None:
    assert not PAIRS.hidden(Dimension.TA)
    assert 0.2 < len(PAIRS.hidden(Dimension.VQ)) / 40 < 0.6
    assert 0.2 < len(PAIRS.hidden(Dimension.MQ)) / 40 < 0.6
