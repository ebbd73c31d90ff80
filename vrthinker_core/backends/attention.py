"""Attention that is faster than the `sdpa` of transformers."""

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
