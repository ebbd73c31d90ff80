"""Attention that is faster than the `sdpa` of transformers."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

BATCH_THRESHOLD = 4
"""Smallest batch size for which two matrix products are faster: 5.2 ms instead of 5.9 for 16."""

ROW_BLOCK = 256
"""Rows of the KV cache that are summed together on a GPU."""

FEW_ROWS = 4096
"""Up to this many rows, a token on a GPU uses the kernel of transformers. Measured: for a token
over 3,000 rows the kernel does not matter beside reading the weights.
"""


def attention_for(device: str, dtype: torch.dtype) -> dict[str, str]:
    """Return a Qwen2.5-VL's `attn_implementation`; register ours if it is faster there."""
    text = "sdpa"
    if device == "cpu" and dtype == torch.float32:
        AttentionInterface.register(text := "vrthinker_cpu", attention_forward)
    elif device.startswith("cuda") and dtype.itemsize == 2:
        AttentionInterface.register(text := "vrthinker_gpu", gpu_attention_forward)
    if text != "sdpa":
        AttentionMaskInterface.register(text, sdpa_mask)
    return {"": "sdpa", "vision_config": "sdpa", "text_config": text}


WINDOWS = "vrthinker_flash_windows"
"""Name of `attend_windows`. A vision tower hands all windows to a function named "flash" at once;
it calls any other for one window after another: 10,848 calls for 24 frames of 448 x 448 pixels.
"""


def use_window_attention(tower: torch.nn.Module) -> None:
    """Let a Qwen2.5-VL's vision tower attend within all windows at once."""
    AttentionInterface.register(WINDOWS, attend_windows)
    config: Any = tower.config
    # By name: transformers would look for a package of FlashAttention
    config._attn_implementation_internal = WINDOWS


def attend_windows(
    module: torch.nn.Module,  # noqa: ARG001 - as transformers calls it
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,  # noqa: ARG001
    scaling: float | None = None,
    *,
    cu_seq_lens_q: torch.Tensor,
    max_length_q: int,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attend within each window, in one call for all windows of one length.

    `query`, `key` and `value` are (1, heads, tokens, head_dim), the result (1, tokens, heads,
    head_dim). `cu_seq_lens_q` holds where windows end; the longest has `max_length_q` tokens.
    """
    heads, tokens, size = query.shape[1:]
    by_token = [states[0].transpose(0, 1) for states in (query, key, value)]

    def attended(states: Sequence[torch.Tensor], length: int) -> torch.Tensor:
        """Return the windows' tokens, (tokens, heads, head_dim)."""
        q, k, v = (each.reshape(-1, length, heads, size).transpose(1, 2) for each in states)
        output = scaled_dot_product_attention(q, k, v, scale=scaling)
        return output.transpose(1, 2).reshape(-1, heads, size)

    if (len(cu_seq_lens_q) - 1) * max_length_q == tokens:  # All have one length
        return attended(by_token, max_length_q)[None], None
    output = torch.empty_like(by_token[0])
    starts, lengths = cu_seq_lens_q[:-1], cu_seq_lens_q.diff()
    for length in sorted(set(lengths.tolist())):
        places = starts[lengths == length, None] + torch.arange(length, device=starts.device)
        rows = places.flatten()
        output[rows] = attended([states[rows] for states in by_token], length)
    return output[None], None


def gpu_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute what `sdpa` gives, faster for one masked sequence.

    The two cases are a prefill chunk, whose mask is causal, lower right, and a captured decode step
    over many rows. Given a mask, transformers copies the keys of a chunk for each head and uses a
    kernel that is not FlashAttention. For one token it uses a kernel in which few multiprocessors
    read all rows: on an H200 a token over 20,000 rows took twice as long as over 2,000.
    """
    batch, heads, tokens, head_dim = query.shape
    _, groups, rows, _ = key.shape
    few = tokens == 1 and rows <= FEW_ROWS
    plain = module.training or options.get("sliding_window")
    if attention_mask is None or batch > 1 or few or plain:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    scale = head_dim**-0.5 if scaling is None else scaling
    if tokens > 1:
        causal = causal_lower_right(tokens, rows)
        output = scaled_dot_product_attention(
            query, key, value, attn_mask=causal, scale=scale, enable_gqa=groups != heads
        )
        return output.transpose(1, 2).contiguous(), None
    # One token, in float32. Rows are summed in blocks, so that the GPU reads many at the same time
    scaled = (query.float() * scale).view(batch, groups, heads // groups, head_dim)
    scores = torch.matmul(scaled, key.float().transpose(-1, -2))
    weights = scores.masked_fill_(~attention_mask, -torch.inf).softmax(dim=-1)
    block = ROW_BLOCK if rows % ROW_BLOCK == 0 else rows
    weights = weights.view(batch, groups, heads // groups, rows // block, block).transpose(2, 3)
    values = value.float().view(batch, groups, rows // block, block, head_dim)
    sums = torch.matmul(weights, values).sum(dim=2).view(batch, heads, 1, head_dim)
    return sums.to(query.dtype).transpose(1, 2), None


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute what `sdpa` gives on a CPU.

    `query` is (batch, heads, tokens, head_dim), the result (batch, tokens, heads, head_dim).
    """
    batch, heads, tokens, head_dim = query.shape
    scale = head_dim**-0.5 if scaling is None else scaling
    if module.training or attention_mask is None or (tokens == 1 and batch < BATCH_THRESHOLD):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scale, **options
        )
    if tokens > 1 or key.shape[1] != heads:
        # The kernel shares grouped keys among heads; transformers copies them for each head
        output = scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=scale, enable_gqa=True
        )
        return output.transpose(1, 2).contiguous(), None
    # A decode step of a batch: two matrix products beat a kernel made for long queries
    scores = torch.matmul(key, query.transpose(-1, -2) * scale).view(batch, heads, 1, -1)
    weights = scores.masked_fill_(~attention_mask, -torch.inf).softmax(dim=-1)
    return torch.matmul(weights, value).transpose(1, 2), None
