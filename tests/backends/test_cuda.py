"""On a GPU the built-in judge writes what it writes on a processor, alone and in a batch, and its steps run as CUDA graphs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from transformers import Qwen2_5_VLConfig

from tests.backends.support.random_model import (
    OPENING,
    asks,
    completions,
    generate,
    small_config,
    user,
    write_random_checkpoint,
)
from tests.benchmarks.tools.random_models import build_on_device
from tests.support.by_heart import learn_by_heart
from tests.support.drawn_rollouts import DrawnPairs, look, right_and_wrong
from vrthinker_core.backends import NANO, kv_cache
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.estimate import TEXT_7B, VISION_7B, estimate, model_shape
from vrthinker_core.training.grpo import train_grpo
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rewards import RolloutReward
from vrthinker_core.training.rollouts import play
from vrthinker_core.training.sft import collate, freeze_vision, token_rows
from vrthinker_core.types import Run, Settings
from vrthinker_core.types.messages import Sampling

pytestmark = pytest.mark.skipif(
    not (os.environ.get("VRT_GPU") and torch.cuda.is_available()),
    reason="VRT_GPU=1 runs it on a GPU",
)

PAIRS = DrawnPairs(2_000_000_000)
# With the first eight frames, 40 pictures in three turns
CALLS = (look(*range(1, 128, 16)), look(*range(9, 128, 16)))


@pytest.fixture(scope="module")
def exact() -> Iterator[None]:
    """Products of matrices in float32, not in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture(scope="module")
def on_gpu(exact: None) -> TransformersBackend:
    return TransformersBackend.load(str(NANO), device="cuda", dtype=torch.float32)


def test_whole_comparisons_are_those_of_a_processor(
    on_gpu: TransformersBackend, nano: TransformersBackend, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [PAIRS.pair(number) for number in range(4)]
    replies = []
    for backend in (on_gpu, nano):
        runs = [rollout.run for pair in pairs for rollout in play([pair], backend, Settings())]
        replies.append([[turn.completion.tokens for turn in run.turns] for run in runs])
    assert replies[0] == replies[1]
    assert on_gpu.loaded.steps_per_sync > 0
    assert not caplog.records, "a CUDA graph was captured"


def test_a_batch_gives_what_each_gives_alone(
    on_gpu: TransformersBackend, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = [OPENING, [*OPENING, user("Compare them.")], OPENING]
    sampling = Sampling(max_new_tokens=200)
    alone = [generate(on_gpu.open_conversation(), each, sampling).tokens for each in prompts]
    assert [each.tokens for each in completions(on_gpu, asks(on_gpu, prompts, sampling))] == alone
    assert not caplog.records, "a CUDA graph was captured"


def test_graphs_are_captured_while_others_generate(
    on_gpu: TransformersBackend, caplog: pytest.LogCaptureFixture
) -> None:
    sampling = Sampling(max_new_tokens=100)
    alone = generate(on_gpu.open_conversation(), OPENING, sampling).tokens
    with ThreadPoolExecutor(4) as pool:
        replies = pool.map(
            lambda _: generate(on_gpu.open_conversation(), OPENING, sampling).tokens, range(16)
        )
    assert set(replies) == {alone}
    assert not caplog.records, "CUDA graphs were captured"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_graph_is_captured_on_the_model_s_gpu(
    on_gpu: TransformersBackend, caplog: pytest.LogCaptureFixture
) -> None:
    other = TransformersBackend.load(str(NANO), device="cuda:1", dtype=torch.float32)
    both = (each.open_conversation() for each in (on_gpu, other))
    one, two = (generate(each, OPENING, Sampling(max_new_tokens=100)).tokens for each in both)
    assert one == two
    assert not caplog.records, "a CUDA graph was captured"


def test_sampled_replies_follow_from_their_seed(on_gpu: TransformersBackend) -> None:
    sampling = Sampling(max_new_tokens=60, temperature=1.0, seed=3)
    once, again = (generate(on_gpu.open_conversation(), OPENING, sampling).tokens for _ in range(2))
    assert once == again


ROPE = {"rope_type": "default", "rope_theta": 10000.0}


@pytest.mark.parametrize("chunk", [64, 300])
def test_a_prompt_that_is_read_in_chunks_in_bfloat16(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {"hidden_size": 512, "max_position_embeddings": 4096}
    rope = {"rope_parameters": ROPE | {"mrope_section": [16, 24, 24]}}
    config = small_config(text | rope, {"out_hidden_size": 512})
    folder = write_random_checkpoint(tmp_path / "random", config=config)
    loaded = TransformersBackend.load(str(folder), device="cuda", dtype=torch.bfloat16).loaded
    items = [100 + n % 300 for n in range(1000)]
    logits = []
    for tokens in (len(items), chunk):
        monkeypatch.setattr(kv_cache, "GPU_PREFILL_CHUNK", tokens)
        cache = kv_cache.PrefixCache(loaded.model, loaded.vision)
        logits.append(cache.prefill(items, not_cancelled)[0])
    assert logits[0] is not None
    assert torch.nn.functional.cosine_similarity(logits[0], logits[1], dim=0) > 0.999


def test_a_judge_in_bfloat16_plays_what_it_was_taught(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In three turns: chunks of prompts after others, and captured steps."""
    text = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4}
    rope = ROPE | {"mrope_section": [8, 12, 12]}
    text |= {"max_position_embeddings": 32_768, "rope_parameters": rope}
    config = small_config(text, {"out_hidden_size": 256})
    checkpoint = build_on_device(tmp_path, config, 448, "cuda", torch.bfloat16)
    folder, model = checkpoint.folder, checkpoint.model
    model.requires_grad_(False)
    loaded = TransformersBackend(checkpoint, "taught").loaded
    rollouts = right_and_wrong(PAIRS.pair(0), *CALLS, settings=Settings(window="all"))
    rows = [row for rollout in rollouts for row in token_rows(rollout, loaded)]
    with torch.inference_mode():
        batch = collate(rows, loaded, loaded.vision.encode)
    batch = {name: value.clone() for name, value in batch.items()}
    learn_by_heart(freeze_vision(model), batch, learning_rate=2e-3, slack=0.1, layers=4)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    model.save_pretrained(folder)
    backend = TransformersBackend.load(str(folder), device="cuda", dtype=torch.bfloat16)
    (rollout,) = play([PAIRS.pair(0)], backend, Settings(window="all"))
    assert [len(turn.frames) for turn in rollout.run.turns] == [8, 16, 16]
    assert not caplog.records, "a CUDA graph was captured"


def test_a_step_of_grpo_with_adapters_takes_no_more_memory_than_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random 7B plays its own rollouts; their rewards are drawn, since it answers nothing."""
    sizes = Qwen2_5_VLConfig(
        text_config=TEXT_7B, vision_config=VISION_7B, tie_word_embeddings=False
    )
    checkpoint = build_on_device(tmp_path, sizes, 448, "cuda", torch.bfloat16)
    for path in checkpoint.folder.glob("*.safetensors"):
        path.unlink()
    checkpoint.model.save_pretrained(checkpoint.folder)
    folder = checkpoint.folder
    del checkpoint
    torch.cuda.empty_cache()
    changes = (
        "grpo.lora=64 grpo.vllm_mode= grpo.pairs=1 grpo.updates=1 grpo.num_generations=4 "
        "grpo.max_steps=1 grpo.redraws=0 settings.max_new_tokens=200 settings.max_turns=3"
    )
    config = changed_config(preset_config("7b"), changes.split())
    monkeypatch.setattr("vrthinker_core.training.grpo.group_rewards", drawn_rewards)
    torch.cuda.reset_peak_memory_stats()
    steps: list[StepMetrics] = []
    train_grpo(PairSet.drawn(1), folder, config, tmp_path, lambda step, _: steps.append(step))
    assert [step.mixed for step in steps] == [1.0]
    expected = estimate("grpo", model_shape(folder), config, 1).needed
    print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, estimated {expected:.1f}")
    assert torch.cuda.max_memory_allocated() < 1.1 * 2**30 * expected


def drawn_rewards(runs: Sequence[Run], *_: object) -> list[RolloutReward]:
    return [RolloutReward(0.0, number % 2, None, 0.0) for number, _ in enumerate(runs)]
