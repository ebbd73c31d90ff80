"""The environment of TRL: what it answers is what the deliberation says, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.ui.support import handmade_runs
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.training.environment import FrameEnvironment, replay
from vrthinker_core.training.grpo import RolloutRewards
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.types import Frame, FrameRef, Settings, StopReason
from vrthinker_core.types.messages import Completion, Image, Message

JUDGE = ScriptedBackend(["<Think>"], protocol="paired")
PAIRS = DrawnPairs(11)
REPLIES = {
    "a call": look(3, 9),
    "frames that do not exist": look(500),
    "frames shown already": look(16, 48),
    "a call that is not JSON": "<Think>b</Think><tool_call>{frame_indices</tool_call>",
    "no action": "<Think>I am thinking.</Think>",
    "nothing": "",
}


def plain(blocks: Sequence[dict[str, Any]]) -> list[object]:
    """Blocks with the pixels of their pictures."""
    return [
        block["text"] if block["type"] == "text" else block["image"].tobytes() for block in blocks
    ]


def sent(message: Message) -> list[object]:
    return [part.frame.rgb if isinstance(part, Image) else part.text for part in message.parts]


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_a_reply_is_answered_in_the_words_of_the_protocol(reply: str) -> None:
    environment = FrameEnvironment(PAIRS, JUDGE, Settings())
    first, second = environment.reset(number=2), environment.select_frames(reply=reply)
    rollout = scripted_rollout(PAIRS.pair(2), reply, answer(PAIRS.pair(2).truth))
    assert plain(first) == sent(rollout.prompts[0][-1])
    assert plain(second) == sent(rollout.prompts[1][-1])
    texts = [block["text"] for block in second if "text" in block]
    assert not any("error" in text.lower() and "{" in text for text in texts)


def test_the_numbers_alone_are_a_call_in_the_protocol_of_the_judge() -> None:
    paired, concat = (
        FrameEnvironment(PAIRS, ScriptedBackend(["<Think>"], protocol=name), Settings(window="all"))
        for name in ("paired", "concat")
    )
    paired.reset(number=0)
    shown = [block["type"] for block in paired.select_frames(frame_indices=[3, 9])]
    assert shown == ["image"] * 4 + ["text"]
    with pytest.raises(BadInput, match="concat opens with a video"):
        concat.reset(number=0)
    shown = [block["type"] for block in concat.select_frames(target_frames=[3, 60])]
    assert shown == ["text", "image", "image"]


def test_on_the_last_turn_the_answer_is_asked_for() -> None:
    environment = FrameEnvironment(PAIRS, JUDGE, Settings(max_turns=2))
    environment.reset(number=0)
    *_, asked = environment.select_frames(frame_indices=[3])
    assert "last turn" in asked["text"]
    assert "last turn" not in str(plain(FrameEnvironment(PAIRS, JUDGE, Settings()).reset(number=0)))


class OnlyFirstFrames:
    """A pair of which only the first frames can be had."""

    size = 1

    def pair(self, number: int) -> LabelledPair:
        drawn = PAIRS.pair(number)

        def broken(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
            if len(refs) < 8:
                raise VideoError("gone")
            return drawn.source(refs)

        return LabelledPair(drawn.prompt, drawn.truth, broken)


def test_frames_that_cannot_be_had_keep_to_the_protocol_and_fail_the_rollout() -> None:
    drawn = PAIRS.pair(0)
    environment = FrameEnvironment(OnlyFirstFrames(), JUDGE, Settings())
    environment.reset(number=0)
    (block,) = environment.select_frames(reply=look(3))
    assert block["text"].startswith("<tool_response>")
    replies = [Completion(look(3)), Completion(answer(drawn.truth))]
    rollout = replay(environment.pair, JUDGE, Settings(), replies)
    assert rollout.run.finished.stop is StopReason.FAILED
    assert len(rollout.run.turns) == len(rollout.prompts) == 1


def test_no_frame_is_asked_for_again_when_the_rollout_is_replayed_and_its_clips_are_named() -> None:
    drawn, asked = PAIRS.pair(1), list[FrameRef]()

    class Counted:
        clips = handmade_runs.clip("a.mp4"), handmade_runs.clip("b.mp4")

        def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
            asked.extend(refs)
            return drawn.source(refs)

    class OnePair:
        size = 1

        def pair(self, number: int) -> LabelledPair:
            return replace(drawn, source=Counted())

    environment = FrameEnvironment(OnePair(), JUDGE, Settings())
    environment.reset(number=0)
    environment.select_frames(reply=look(3))
    shown = list(asked)
    replies = [Completion(look(3)), Completion(answer(drawn.truth))]
    rollout = replay(environment.pair, JUDGE, Settings(), replies)
    assert rollout.correct
    assert rollout.run.started.clips == Counted.clips
    assert asked == shown == list(dict.fromkeys(shown))


def test_what_says_nothing_of_the_judge_counts_in_no_figure() -> None:
    truth = PAIRS.pair(0).truth
    tokenizer = SafeTokenizer(open_for_rendering(str(NANO)).tokenizer)
    end = [tokenizer.control.im_end]
    header = [0] * (1 + len(tokenizer.encode("\n")) + len(tokenizer.encode("assistant\n")))
    ids = [*tokenizer.encode(look(3)), *end, *end, *header, *tokenizer.encode(answer(truth)), *end]
    all_pairs = (PAIRS, PAIRS, OnlyFirstFrames(), OnlyFirstFrames())
    environments = [FrameEnvironment(pairs, JUDGE, Settings()) for pairs in all_pairs]
    for environment in environments:
        environment.reset(number=0)
    rewards = RolloutRewards(JUDGE, Settings(), tokenizer, samples=4)
    assert rewards([ids] * 4, environments) == [2.0, 2.0, None, None]
    (group,) = rewards.groups
    step = StepMetrics("grpo", 1, 0.0, 0.0).with_rollouts(group.rewarded, rewards.weights)
    assert (step.reward_format, step.reward_accuracy, step.reward_total) == (1.0, 1.0, 2.0)
    assert set(step.right.values()) == {1.0}


def test_replayed_replies_are_the_rollout_that_play_makes() -> None:
    pair, replies = PAIRS.pair(4), (look(3), "nothing", look(7), answer(PAIRS.pair(4).truth))
    played = scripted_rollout(pair, *replies)
    again = replay(pair, JUDGE, Settings(), [Completion(reply) for reply in replies])
    assert again.prompts == played.prompts
    assert [turn.reply for turn in again.run.turns] == [turn.reply for turn in played.run.turns]
    assert again.correct
    cut = replay(pair, JUDGE, Settings(), [Completion(look(3)), Completion("<Think>", "length")])
    assert cut.run.finished.stop is StopReason.TOKEN_LIMIT
