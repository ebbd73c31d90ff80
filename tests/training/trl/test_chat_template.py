"""The chat template for TRL: the tokens, pictures and masks of the product, and the reading of replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from vrthinker_core import ScriptedBackend, VideoPair, judge
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.chat_template import VisionItem, render_prompt
from vrthinker_core.backends.checkpoint import Checkpoint, open_for_training
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.drawn.video_files import write_pairs
from vrthinker_core.protocols.factory import make_protocol
from vrthinker_core.training.environment import FrameEnvironment, content_blocks
from vrthinker_core.training.rollouts import LabelledPair, Rollout
from vrthinker_core.training.token_rows import IGNORED, collate, token_rows
from vrthinker_core.training.trl_template import (
    TOOL,
    PictureProcessor,
    earlier_replies,
    picture_processor,
    read_replies,
)
from vrthinker_core.types import Settings

PAIRS = DrawnPairs(21)
PROTOCOL = make_protocol(Settings(), "paired")
SPOKEN = look(3, 9).replace("<Snapshot>a", "<Snapshot>Café – 兩個球 🎾")
REPLIES = (SPOKEN, "I do not know yet.", look(500), look(77))


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
    return scripted_rollout(PAIRS.pair(0), *REPLIES, answer(PAIRS.pair(0).truth))


def conversation(rollout: Rollout, nano: TransformersBackend) -> list[dict[str, Any]]:
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


def test_rollout_row_and_template_have_the_same_tokens_masks_and_pictures(
    rollout: Rollout, nano: TransformersBackend, processor: PictureProcessor
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


def test_pictures_are_tensors_whatever_is_asked_for(
    rollout: Rollout, processor: PictureProcessor
) -> None:
    """TRL asks for lists, and multiplies the grids of the first prompt where no tool reply has brought a picture."""
    frame = rollout.prompts[0][-1].frames[0]
    picture = Image.frombytes("RGB", (frame.width, frame.height), frame.rgb)
    batch: Any = processor(images=[picture], text=["<|vision_start|><|image_pad|><|vision_end|>"])
    assert batch["image_grid_thw"].prod(-1).tolist() == [len(batch["pixel_values"])]
    assert isinstance(batch["input_ids"], list)


def test_the_page_sends_what_is_trained(
    nano: TransformersBackend, processor: PictureProcessor, tmp_path: Path
) -> None:
    """The conversation of a comparison of two files, a rollout over the frames it was shown, the template: one row of tokens."""
    write_pairs(1, 5, tmp_path, 112)
    first, second = sorted(tmp_path.rglob("*.mp4"))
    truth, seen = PAIRS.pair(0).truth, []

    def script(messages: Any) -> str:
        seen.append(messages)
        return [look(40, 90), "no action", answer(truth)][len(seen) - 1]

    list(judge(VideoPair("a red ball", first, second), ScriptedBackend(script, protocol="paired")))
    frames = {frame.ref: frame for message in seen[-1] for frame in message.frames}
    pair = LabelledPair("a red ball", truth, lambda refs: tuple(frames[ref] for ref in refs))
    rollout = scripted_rollout(pair, look(40, 90), "no action", answer(truth))
    (row,) = token_rows(rollout, nano.loaded)
    pads = nano.loaded.tokenizer.control.image_pad
    page: list[int] = []
    for item in render_prompt(seen[-1], nano.loaded.tokenizer, nano.loaded.vision.vision_item):
        page += [pads] * item.num_tokens if isinstance(item, VisionItem) else [item]
    assert list(row.input_ids[: len(page)]) == page
    sent = [{"role": each.role, "content": content_blocks(each)} for each in seen[-1]]
    rendered: Any = processor.apply_chat_template(
        sent, tokenize=True, return_dict=True, add_generation_prompt=True
    )
    assert list(rendered["input_ids"][0]) == page
    assert sum(len(message.frames) for message in seen[-1]) == len(row.items) == 12


def test_a_tool_picture_changes_the_loss_and_only_own_tokens_are_learnt(
    rollout: Rollout, nano: TransformersBackend
) -> None:
    (row,) = token_rows(rollout, nano.loaded)
    batch = collate([row], nano.loaded)
    vision: Any = nano.loaded.model.model.visual
    loss = nano.loaded.model(**batch).loss
    loss.backward()
    assert vision.patch_embed.proj.weight.grad.abs().sum() > 0
    nano.loaded.model.zero_grad()
    last = batch["image_grid_thw"][-1].prod()
    batch["pixel_values"][-last:] += 1  # the last picture came with the last tool reply
    with torch.no_grad():
        assert not torch.isclose(nano.loaded.model(**batch).loss, loss, rtol=1e-6)
    written = "".join(f"{turn.completion.text}<|im_end|>" for turn in rollout.run.turns)
    learnt = [label for label in row.labels if label != IGNORED]
    assert nano.loaded.tokenizer.decode(learnt) == written


def test_replies_are_read_from_the_tokens_and_keep_their_line_breaks(
    rollout: Rollout, nano: TransformersBackend
) -> None:
    (row,) = token_rows(rollout, nano.loaded)
    start = next(position for position, label in enumerate(row.labels) if label != IGNORED)
    replies = read_replies(row.input_ids[start:], nano.loaded.tokenizer)
    assert [reply.text for reply in replies] == [turn.completion.text for turn in rollout.run.turns]
    assert {reply.stop for reply in replies} == {"end"}
    cut = read_replies(row.input_ids[start:-1], nano.loaded.tokenizer)
    assert [reply.stop for reply in cut] == ["end"] * 4 + ["length"]
    prompt = row.input_ids[: len(row.input_ids) - len(replies[-1].tokens) - 1]
    assert [reply.text for reply in earlier_replies(prompt, nano.loaded.tokenizer)] == list(REPLIES)
    assert earlier_replies(row.input_ids[:start], nano.loaded.tokenizer) == []


def test_a_reply_is_a_call_exactly_where_the_deliberation_goes_on(
    nano: TransformersBackend, processor: PictureProcessor
) -> None:
    tokenizer: Any = processor.tokenizer
    encode = nano.loaded.tokenizer.encode
    end = [nano.loaded.tokenizer.control.im_end]
    start, line = [nano.loaded.tokenizer.control.im_start], encode("\n")
    header = [*start, *encode("assistant\n")]
    told = [*encode("no action"), *end, *line, *start, *encode("user\n"), *end, *line]
    again = [*header, *told, *header]
    for reply, prefix, goes_on in [
        (look(3), header, True),
        (look(500), header, True),
        ("no action", header, True),
        ("no action", again, False),
        (look(3), again, True),
        (answer(PAIRS.pair(0).truth), header, False),
    ]:
        message = tokenizer.parse_response([*encode(reply), *end], prefix=prefix)
        assert message["content"] == reply
        assert ("tool_calls" in message) is goes_on, reply
    cut = tokenizer.parse_response(encode(look(3)), prefix=header)
    assert "tool_calls" not in cut


def test_the_form_of_our_calls_is_told_to_any_parser(processor: PictureProcessor) -> None:
    tokenizer: Any = processor.tokenizer
    said, prefix = f"{look(1, 2)}<|im_end|>", "<|im_start|>assistant\n"
    read = type(tokenizer).parse_response(tokenizer, said, prefix=prefix)
    (call,) = read["tool_calls"]
    assert call["function"] == {"name": TOOL, "arguments": {"frame_indices": [1, 2]}}
    assert read["content"] == "<Snapshot>a</Snapshot>\n<Think>b</Think>"
    assert PROTOCOL.call((1, 2)) in str(processor.apply_chat_template([read], tokenize=False))


def test_trl_takes_the_template(processor: PictureProcessor) -> None:
    utilities = pytest.importorskip("trl.chat_template_utils")
    assert utilities.supports_tool_calling(processor)
    assert utilities.is_chat_template_prefix_preserving(processor)
    assert utilities.is_chat_template_stop_token_trained(processor)
    assert utilities.get_training_chat_template(processor) is None
