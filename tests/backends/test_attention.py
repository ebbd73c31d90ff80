"""Our attention gives what that of torch gives, whatever is masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import Qwen2_5_VLForConditionalGeneration

from tests.backends.support.random_model import small_config
from vrthinker_core.backends import attention
from vrthinker_core.backends.attention import (
    BATCH_THRESHOLD,
    FEW_ROWS,
    ROW_BLOCK,
    attention_forward,
    gpu_attention_forward,
    use_window_attention,
)


def attended(
    forward: Callable[..., Any], groups: int, *given: torch.Tensor, **how: float
) -> torch.Tensor:
    """The output of attention in a layer with so many query heads for each head of keys and values."""
    module = torch.nn.Module().eval()
    module.num_key_value_groups = groups
    return forward(module, *given, **how)[0]


def check_against_sdpa(
    forward: Callable[..., Any], grouped: bool, *given: torch.Tensor, scale: float = 0.3
) -> None:
    found = attended(forward, 1 + grouped, *given, scaling=scale)
    expected = scaled_dot_product_attention(*given, scale=scale, enable_gqa=grouped)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("batch", [1, BATCH_THRESHOLD - 1, BATCH_THRESHOLD, 16])
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("grouped", [False, True])
@torch.inference_mode()
def test_output_is_that_of_sdpa(batch: int, tokens: int, grouped: bool) -> None:
    torch.manual_seed(batch)
    heads, rows, head_dim = 4, 50, 24
    query = torch.randn(batch, heads, tokens, head_dim)
    key, value = (
        torch.randn(batch, heads // (2 if grouped else 1), rows + 9, head_dim)[:, :, :rows]
        for _ in range(2)
    )
    mask = (torch.arange(rows) <= torch.randint(0, rows, (batch, 1)))[:, None, None].expand(
        -1, -1, tokens, -1
    )
    check_against_sdpa(attention_forward, grouped, query, key, value, mask)


@pytest.mark.filterwarnings("ignore:.*(Flash|Memory [Ee]fficient|Mem efficient|Both fused)")
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("before", "tokens"), [(0, 7), (20, 7), (20, 1)])
@torch.inference_mode()
def test_a_chunk_of_a_prompt_sees_what_was_read_before_and_itself(
    before: int, tokens: int, grouped: bool
) -> None:
    torch.manual_seed(tokens)
    rows, heads = before + tokens, 4
    query = torch.randn(1, heads, tokens, 16)
    key, value = (torch.randn(1, heads // (2 if grouped else 1), rows, 16) for _ in range(2))
    mask = torch.ones(tokens, rows, dtype=torch.bool).tril(before)[None, None]
    check_against_sdpa(gpu_attention_forward, grouped, query, key, value, mask)


@pytest.mark.parametrize("rows", [50, FEW_ROWS, FEW_ROWS + 1, FEW_ROWS + 2 * ROW_BLOCK])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.inference_mode()
def test_a_token_sees_the_rows_that_are_not_masked(
    rows: int, batch: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(rows)
    query = torch.randn(batch, 4, 1, 16).to(dtype)
    key, value = (torch.randn(batch, 2, rows, 16).to(dtype) for _ in range(2))
    mask = (torch.arange(rows) <= torch.randint(0, rows, (batch, 1)))[:, None, None]
    found = attended(gpu_attention_forward, 2, query, key, value, mask, scaling=0.3)
    doubles = [each.double() for each in (query, key, value)]
    exact = scaled_dot_product_attention(*doubles, attn_mask=mask, scale=0.3, enable_gqa=True)
    assert found.dtype == dtype
    assert found.shape == (batch, 1, 4, 16)
    atol, rtol = (1e-6, 1e-5) if dtype == torch.float32 else (4e-3, 2**-7)
    torch.testing.assert_close(found.double(), exact.transpose(1, 2), atol=atol, rtol=rtol)


@torch.inference_mode()
def test_a_sliding_window_is_masked_as_it_says() -> None:
    query, key, value = (torch.randn(1, 2, length, 8) for length in (3, 9, 9))
    mask = torch.ones(3, 9, dtype=torch.bool).tril(6).triu(4)[None, None]
    found = attended(gpu_attention_forward, 1, query, key, value, mask, sliding_window=3)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(found, expected.transpose(1, 2))


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

    monkeypatch.setattr(attention, "scaled_dot_product_attention", count)
    use_window_attention(tower)
    assert torch.equal(tower(patches, grid_thw=grid).pooler_output, expected)
    assert len(counted) <= calls * config.vision_config.depth
