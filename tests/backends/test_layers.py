"""Our layers give what those of torch and transformers give."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import Qwen2_5_VLForConditionalGeneration

from tests.backends.support.random_model import small_config
from vrthinker_core.backends import layers
from vrthinker_core.backends.layers import (
    DecodeStep,
    RowAttention,
    attend_from_row,
    attend_prompt,
    use_window_attention,
)


def check_against_sdpa(grouped: bool, *given: torch.Tensor) -> None:
    module = torch.nn.Module().eval()
    module.num_key_value_groups = 1 + grouped
    found: Any = attend_prompt(module, *given, scaling=0.3)[0]
    expected = scaled_dot_product_attention(*given, scale=0.3, enable_gqa=grouped)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("before", "tokens"), [(0, 7), (20, 7), (20, 1)])
@pytest.mark.parametrize("grouped", [False, True])
@torch.inference_mode()
def test_a_chunk_of_a_prompt_sees_what_was_read_before_and_itself(
    batch: int, before: int, tokens: int, grouped: bool
) -> None:
    torch.manual_seed(batch)
    rows, heads = before + tokens, 4
    query = torch.randn(batch, heads, tokens, 16)
    key, value = (torch.randn(batch, heads // (1 + grouped), rows, 16) for _ in range(2))
    mask = torch.ones(tokens, rows, dtype=torch.bool).tril(before).expand(batch, 1, -1, -1)
    check_against_sdpa(grouped, query, key, value, mask)


@torch.inference_mode()
def test_a_sliding_window_is_masked_as_it_says() -> None:
    query, key, value = (torch.randn(1, 2, length, 8) for length in (3, 9, 9))
    mask = torch.ones(3, 9, dtype=torch.bool).tril(6).triu(4)[None, None]
    module = torch.nn.Module().eval()
    module.num_key_value_groups = 1
    found: Any = attend_prompt(module, query, key, value, mask, sliding_window=3)[0]
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(found, expected.transpose(1, 2))


@pytest.mark.parametrize("groups", [1, 2, 4])
@torch.inference_mode()
def test_a_step_gives_what_the_modules_give_and_their_weights_stay(groups: int) -> None:
    """From a row that is known and from one that a tensor names; the joined weights are those of the modules."""
    model = Qwen2_5_VLForConditionalGeneration(small_config({"num_key_value_heads": groups})).eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    step, prompt = DecodeStep(model), torch.randint(0, 300, (1, 10))
    expected = model(prompt).logits[:, -1]
    read = model(prompt[:, :-1], use_cache=True).past_key_values.layers
    storages = [
        [tuple(pad(each, (0, 0, 0, 3)) for each in (layer.keys, layer.values)) for layer in read]
        for _ in range(2)
    ]
    named = RowAttention(storages[1])
    named.row.fill_(9)
    for attend in (attend_from_row(storages[0], 9), named.attend()):
        found = step(prompt[0, -1:], torch.tensor([9]), attend)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(*storages, atol=1e-5, rtol=1e-5)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    ("grids", "calls"), [([[1, 32, 32]] * 3, 1), ([[1, 32, 32], [1, 20, 26], [3, 12, 18]], 4)]
)
@torch.inference_mode()
def test_a_vision_tower_attends_within_all_windows_at_once(
    grids: list[list[int]], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In so many calls a layer, to the last bit as window after window."""
    config, counted = small_config(), list[int]()
    tower = Qwen2_5_VLForConditionalGeneration(config).eval().model.visual
    grid = torch.tensor(grids)
    patch = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    patches = torch.randn(int(grid.prod(dim=1).sum()), patch)
    expected = tower(patches, grid_thw=grid).pooler_output

    def count(*given: torch.Tensor, **how: Any) -> torch.Tensor:
        counted.append(1)
        return scaled_dot_product_attention(*given, **how)

    monkeypatch.setattr(layers, "scaled_dot_product_attention", count)
    use_window_attention(tower)
    assert torch.equal(tower(patches, grid_thw=grid).pooler_output, expected)
    assert len(counted) <= calls * config.vision_config.depth
