"""Attention that is faster than the `sdpa` of transformers.

On a CPU the gain is in float32, on a GPU in half precision.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

BATCH_THRESHOLD = 4
"""Smallest batch size for which two matrix products are faster. Measured: a step of 16 sequences of
400 tokens takes 5.2 ms instead of 5.9.
"""

ROW_BLOCK = 256
"""Rows of the KV cache that are summed together on a GPU."""

FEW_ROWS = 4096
"""Up to this many rows, a token on a GPU uses the kernel of transformers. Measured: for a token
over 3,000 rows the kernel does not matter beside reading the weights.
"""


def attention_for(device: str, dtype: torch.dtype) -> dict[str, str]:
    """Return the `attn_implementation` of a Qwen2.5-VL on a device.

    If this module is faster there, its implementation is registered for the language model.
    """
    text = "sdpa"
    if device == "cpu" and dtype == torch.float32:
        text = _registered("vrthinker_cpu", attention_forward)
    elif device.startswith("cuda") and dtype.itemsize == 2:
        text = _registered("vrthinker_gpu", gpu_attention_forward)
    return {"": "sdpa", "vision_config": "sdpa", "text_config": text}


def _registered(name: str, forward: Callable[..., tuple[torch.Tensor, None]]) -> str:
    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    return name


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

    The two cases are a prefill chunk and a captured decode step over many rows. Given a mask,
    transformers copies the keys of a chunk for each head and uses a kernel that is not
    FlashAttention. For one token it uses a kernel in which few multiprocessors read all rows.

    Measured on an H200: the chunks of a prompt took longer than the whole prompt at once, and a
    token over 20,000 rows took twice as long as over 2,000. The mask of a chunk is causal, lower
    right.
    """
    batch, heads, tokens, head_dim = query.shape
    few = tokens == 1 and key.shape[2] <= FEW_ROWS
    if (
        attention_mask is None
        or batch > 1
        or few
        or module.training
        or options.get("sliding_window")
    ):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    scale = head_dim**-0.5 if scaling is None else scaling
    if tokens == 1:
        return _decode(query, key, value, attention_mask, scale).transpose(1, 2), None
    causal, shared = causal_lower_right(tokens, key.shape[2]), key.shape[1] != heads
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=causal, scale=scale, enable_gqa=shared
    )
    return output.transpose(1, 2).contiguous(), None


def _decode(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Compute the attention of one token in float32 matrix products.

    The query and the result are (1, heads, 1, head_dim). Rows are summed in blocks, so that the GPU
    reads many of them at the same time.
    """
    batch, heads, _, head_dim = query.shape
    groups, rows = key.shape[1], key.shape[2]
    scaled = (query.float() * scale).view(batch, groups, heads // groups, head_dim)
    scores = torch.matmul(scaled, key.float().transpose(-1, -2)).masked_fill_(
        ~attention_mask, -torch.inf
    )
    block = ROW_BLOCK if rows % ROW_BLOCK == 0 else rows
    weights = (
        scores.softmax(dim=-1)
        .view(batch, groups, heads // groups, rows // block, block)
        .transpose(2, 3)
    )
    sums = torch.matmul(
        weights, value.float().view(batch, groups, rows // block, block, head_dim)
    ).sum(dim=2)
    return sums.view(batch, heads, 1, head_dim).to(query.dtype)


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
    scaled_query = query.transpose(-1, -2) * scale
    scores = (
        torch.matmul(key, scaled_query)
        .view(batch, heads, 1, -1)
        .masked_fill_(~attention_mask, -torch.inf)
    )
    return torch.matmul(scores.softmax(dim=-1), value).transpose(1, 2), None
