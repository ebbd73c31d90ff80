"""What TRL is given: an environment that answers as the deliberation does, and a template with the tokens of the product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.ui.support import handmade_runs
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.backends.checkpoint import Checkpoint, open_for_rendering, open_for_training
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.protocols.factory import make_protocol
from vrthinker_core.training.environment import FrameEnvironment, replay
from vrthinker_core.training.grpo import BEYOND, PlayablePairs, RolloutRewards
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.sft import IGNORED, collate, token_rows
from vrthinker_core.training.trl_template import (
    TOOL,
    PictureProcessor,
    earlier_replies,
    picture_processor,
    read_replies,
)
from vrthinker_core.types import Frame, FrameRef, Settings, StopReason
from vrthinker_core.types.messages import Completion, Image, Message

Nano = TransformersBackend
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


def test_the_numbers_alone_are_a_call_in_the_protocol_of_the_judge() -> None:
    paired = FrameEnvironment(PAIRS, JUDGE, Settings())
    paired.reset(number=0)
    shown = [block["type"] for block in paired.select_frames(frame_indices=[3, 9])]
    assert shown == ["image"] * 4 + ["text"]
    concat = FrameEnvironment(PAIRS, ScriptedBackend(["<Think>"], protocol="concat"), Settings())
    with pytest.raises(BadInput, match="concat opens with a video"):
        concat.reset(number=0)
    shown = [block["type"] for block in concat.select_frames(target_frames=[3, 60])]
    assert shown == ["text", "image", "image"]


def test_on_the_last_turn_the_answer_is_asked_for() -> None:
    environment = FrameEnvironment(PAIRS, JUDGE, Settings(max_turns=2))
    assert "last turn" not in str(plain(environment.reset(number=0)))
    *_, asked = environment.select_frames(frame_indices=[3])
    assert "last turn" in asked["text"]


def test_frames_that_cannot_be_had_keep_to_the_protocol_and_fail_the_rollout() -> None:
    drawn = PAIRS.pair(0)
    environment = FrameEnvironment(Damaged(None, first_frames=8), JUDGE, Settings())
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

    pairs = Mock(size=1, **{"pair.return_value": replace(drawn, source=Counted())})
    environment = FrameEnvironment(pairs, JUDGE, Settings())
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
    all_pairs = (PAIRS, PAIRS, *[Damaged(None, first_frames=8)] * 2)
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


def unreadable(_: Sequence[FrameRef]) -> tuple[Frame, ...]:
    raise VideoError("second.mp4 is cut short.")


@dataclass
class Damaged:
    """Drawn pairs, of which some cannot be read (None: none of them), or only their first frames."""

    numbers: set[int] | None
    first_frames: int = 0
    size: None = None

    def pair(self, number: int) -> LabelledPair:
        pair = replace(PAIRS.pair(number), row=number)

        def source(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
            return pair.source(refs) if len(refs) == self.first_frames else unreadable(refs)

        broken = self.numbers is None or number in self.numbers
        return replace(pair, source=source) if broken else pair


def test_another_pair_stands_in_for_all_samples_of_one_that_cannot_be_read() -> None:
    heard: list[str] = []
    damaged = Damaged({3, 3 + BEYOND})
    pairs = PlayablePairs(damaged, JUDGE, Settings(), heard.append)
    played = [FrameEnvironment(pairs, JUDGE, Settings()) for _ in range(3)]
    opened = [environment.reset(number=3) for environment in played]
    assert opened[0] == opened[1] == opened[2]
    stand_in = PAIRS.pair(3 + 2 * BEYOND).prompt
    assert {environment.pair.prompt for environment in played} == {stand_in}
    said = "A pair cannot be played and teaches nothing. Row {}: second.mp4 is cut short."
    assert pairs.pair(4).prompt == PAIRS.pair(4).prompt
    assert heard == [said.format(3), said.format(3 + BEYOND)]
    damaged.numbers = {4}  # What was read once is not exchanged within a group
    with pytest.raises(VideoError, match=r"Row 4: second\.mp4 is cut short"):
        pairs.pair(4)
    with pytest.raises(BadInput, match="None of 64 pairs can be played"):
        PlayablePairs(Damaged(None), JUDGE, Settings()).pair(0)


PROTOCOL = make_protocol(Settings(), "paired")
SPOKEN = look(3, 9).replace("<Snapshot>a", "<Snapshot>Café – 兩個球 🎾")
SCRIPT = (SPOKEN, "I do not know yet.", look(500), look(77))


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return open_for_training(str(NANO))


@pytest.fixture(scope="module")
def nano(checkpoint: Checkpoint) -> TransformersBackend:
    return TransformersBackend(checkpoint, "nano")


@pytest.fixture(scope="module")
def processor(checkpoint: Checkpoint) -> PictureProcessor:
    return picture_processor(checkpoint, PROTOCOL)


@pytest.fixture(scope="module")
def rollout() -> Rollout:
    return scripted_rollout(PAIRS.pair(0), *SCRIPT, answer(PAIRS.pair(0).truth))


def conversation(rollout: Rollout, nano: Nano) -> list[dict[str, Any]]:
    """The messages that TRL's loop keeps of the same rollout."""
    environment = FrameEnvironment(PAIRS, nano, Settings())
    messages = [
        {"role": "system", "content": [{"type": "text", "text": PROTOCOL.system}]},
        {"role": "user", "content": environment.reset(number=0)},
    ]
    for turn in rollout.run.turns:
        arguments = {"function": {"name": TOOL, "arguments": {"reply": turn.completion.text}}}
        content = [{"type": "text", "text": turn.completion.text}]
        messages.append({"role": "assistant", "content": content, "tool_calls": [arguments]})
        if turn.number < len(rollout.run.turns):
            shown = environment.select_frames(reply=turn.completion.text)
            messages.append({"role": "tool", "name": TOOL, "content": shown})
    return messages


def test_row_and_template_are_the_same(
    rollout: Rollout, nano: Nano, processor: PictureProcessor
) -> None:
    (row,) = token_rows(rollout, nano.loaded)
    rendered: Any = processor.apply_chat_template(
        conversation(rollout, nano),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
        return_tensors="pt",
    )
    line_end, length = nano.loaded.tokenizer.encode("\n"), len(row.input_ids)
    assert rendered["input_ids"][0].tolist() == [*row.input_ids, *line_end]
    learnt = [label != IGNORED for label in row.labels] + [False] * len(line_end)
    assert rendered["assistant_masks"][0].bool().tolist() == learnt
    batch = collate([row], nano.loaded, multiple=1)
    assert torch.equal(rendered["pixel_values"], batch["pixel_values"])
    assert torch.equal(rendered["image_grid_thw"], batch["image_grid_thw"])
    assert torch.equal(rendered["mm_token_type_ids"][:, :length], batch["mm_token_type_ids"])


def test_replies_are_read_from_the_tokens(rollout: Rollout, nano: Nano) -> None:
    (row,) = token_rows(rollout, nano.loaded)
    start = next(position for position, label in enumerate(row.labels) if label != IGNORED)
    replies = read_replies(row.input_ids[start:], nano.loaded.tokenizer)
    assert [reply.text for reply in replies] == [turn.completion.text for turn in rollout.run.turns]
    assert {reply.stop for reply in replies} == {"end"}
    cut = read_replies(row.input_ids[start:-1], nano.loaded.tokenizer)
    assert [reply.stop for reply in cut] == ["end"] * 4 + ["length"]
    prompt = row.input_ids[: len(row.input_ids) - len(replies[-1].tokens) - 1]
    assert [reply.text for reply in earlier_replies(prompt, nano.loaded.tokenizer)] == list(SCRIPT)
    assert earlier_replies(row.input_ids[:start], nano.loaded.tokenizer) == []


def test_a_reply_is_a_call_where_more_is_to_come(nano: Nano, processor: PictureProcessor) -> None:
    tokenizer: Any = processor.tokenizer
    encode, control = nano.loaded.tokenizer.encode, nano.loaded.tokenizer.control
    start, end, line = [control.im_start], [control.im_end], encode("\n")
    header = [*start, *encode("assistant\n")]
    told = [*encode("no action"), *end, *line, *start, *encode("user\n"), *end, *line]
    for reply, prefix, goes_on in [
        (look(3), header, True),
        (look(500), header, True),
        ("no action", header, True),
        ("no action", [*header, *told, *header], False),
        (look(3), [*header, *told, *header], True),
        (answer(PAIRS.pair(0).truth), header, False),
    ]:
        message = tokenizer.parse_response([*encode(reply), *end], prefix=prefix)
        assert message["content"] == reply
        assert ("tool_calls" in message) is goes_on, reply
    assert "tool_calls" not in tokenizer.parse_response(encode(look(3)), prefix=header)


def test_trl_takes_the_template(processor: PictureProcessor) -> None:
    utilities = pytest.importorskip("trl.chat_template_utils")
    assert utilities.supports_tool_calling(processor)
    assert utilities.is_chat_template_prefix_preserving(processor)
    assert utilities.is_chat_template_stop_token_trained(processor)
    assert utilities.get_training_chat_template(processor) is None
