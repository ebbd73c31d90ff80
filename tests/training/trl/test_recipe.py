"""The recipe for the 7B on random models of its shape: masks, pictures and fine-tuning, on our vocabulary and on the real one.

`VRT_REAL_TOKENIZER` names a folder with the tokenizer of Qwen2.5-VL (tokenizer.json, tokenizer_config.json); without it those tests
are left out. GRPO on both vocabularies: `test_grpo.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.training.trl.support import VOCABULARIES, random_judge, weights
from vrthinker_core.backends.factory import open_backend
from vrthinker_core.backends.local.checkpoint.loader import open_for_training
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.dialects.factory import make_dialect
from vrthinker_core.training.environment import content_blocks
from vrthinker_core.training.rollouts import Rollout, play
from vrthinker_core.training.run.config import OptimizerConfig, SftConfig, preset_config
from vrthinker_core.training.token_rows import IGNORED, collate, token_rows
from vrthinker_core.training.trl.chat_template import picture_processor
from vrthinker_core.training.trl.sft import train_sft
from vrthinker_core.types import Settings
from vrthinker_core.types.messages import GeneratedText

PAIRS = DrawnPairs(41)
SPOKEN = "<Snapshot>Café – 兩個球 🎾</Snapshot>\n" + look(3, 9).split("\n", 1)[1]


@dataclass(frozen=True, slots=True)
class Tiny:
    """A random Qwen2.5-VL, opened, and a rollout in its tokens."""

    folder: Path
    judge: TransformersBackend
    rollout: Rollout


@pytest.fixture(scope="module", params=VOCABULARIES)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = random_judge(tmp_path_factory.mktemp("tiny"), request.param)
    opened = open_for_training(str(folder))
    rollout = scripted_rollout(PAIRS.pair(0), SPOKEN, answer(PAIRS.pair(0).truth))
    return Tiny(folder, TransformersBackend(opened, "tiny"), rollout)


def test_masks_are_exact(tiny: Tiny) -> None:
    loaded = tiny.judge.loaded
    (row,) = token_rows(tiny.rollout, loaded)
    written = [f"{turn.completion.text}<|im_end|>" for turn in tiny.rollout.run.turns]
    assert loaded.tokenizer.decode([label for label in row.labels if label != IGNORED]) == "".join(
        written
    )
    processor = picture_processor(
        open_for_training(str(tiny.folder)), make_dialect(Settings(), "paired")
    )
    messages = [*tiny.rollout.prompts[-1]]
    conversation: list[dict[str, Any]] = [
        {
            "role": message.role,
            "content": _told(message.parts[0].text) if _said(message) else content_blocks(message),
        }
        for message in messages
    ]
    conversation.append(
        {"role": "assistant", "content": _told(tiny.rollout.run.turns[-1].completion.text)}
    )
    rendered: Any = processor.apply_chat_template(
        conversation, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    length = len(row.input_ids)
    assert list(rendered["input_ids"][0][:length]) == list(row.input_ids)
    assert [bool(each) for each in rendered["assistant_masks"][0][:length]] == [
        label != IGNORED for label in row.labels
    ]


def _said(message: Any) -> bool:
    return isinstance(message.parts[0], GeneratedText)


def _told(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def test_pictures_of_tool_replies_reach_the_loss(tiny: Tiny) -> None:
    (row,) = token_rows(tiny.rollout, tiny.judge.loaded)
    batch, model = collate([row], tiny.judge.loaded), tiny.judge.loaded.model
    model.zero_grad()
    batch["pixel_values"].requires_grad_(True)
    model(**batch).loss.backward()
    pixels = batch["pixel_values"].grad
    assert pixels is not None
    each = torch.split(pixels.abs().sum(1), batch["image_grid_thw"].prod(-1).tolist())
    assert len(each) == 8 + 4
    assert all(float(picture.sum()) > 0 for picture in each)
    model.zero_grad()


def test_both_stages_of_fine_tuning_move_the_weights_and_the_result_plays(
    tiny: Tiny, tmp_path: Path
) -> None:
    rows = list(token_rows(tiny.rollout, tiny.judge.loaded))
    sft, config = (
        SftConfig(OptimizerConfig(1e-3, 0.0), batch=1, accumulation=1, epochs=1),
        preset_config("7b"),
    )
    cold = train_sft(
        rows, tiny.folder, sft, replace(config, frozen_vision=False), tmp_path / "cold-start"
    )
    rejected = train_sft(rows, cold, sft, config, tmp_path / "rejection")
    states = [weights(folder) for folder in (tiny.folder, cold, rejected)]
    for before, after, tower in ((states[0], states[1], True), (states[1], states[2], False)):
        moved = {name for name in before if not torch.equal(before[name], after[name])}
        assert any("visual" not in name for name in moved)
        assert any("visual" in name for name in moved) is tower
    (rollout,) = play(
        [PAIRS.pair(1)], open_backend(f"hf:{rejected}"), Settings(max_new_tokens=8, max_turns=2)
    )
    assert rollout.run.finished is not None
    assert 1 <= len(rollout.run.turns) <= 2
