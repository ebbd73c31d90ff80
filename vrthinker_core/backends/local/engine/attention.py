"""Attention where what transformers does for `sdpa` is slower than need be: on a CPU in float32, and in prefill chunks on a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

BATCH_THRESHOLD = 4
"""Batch size from which on two matrix products are quicker. Measured: a step of 16 sequences of 400 tokens: 5.2 ms, not 5.9."""

STOCK = "sdpa"


def attention_for(device: str, dtype: torch.dtype) -> str:
    """The `attn_implementation` of a language model there, registered with transformers."""
    if device == "cpu" and dtype == torch.float32:
        return _registered("vrthinker_cpu", attention_forward)
    if device.startswith("cuda") and dtype.itemsize == 2:
        return _registered("vrthinker_gpu", prefill_attention_forward)
    return STOCK


def _registered(name: str, forward: Callable[..., tuple[torch.Tensor, None]]) -> str:
    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)
    return name


def prefill_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What `sdpa` gives, with FlashAttention for a chunk of one prompt that is read after others, which is masked causally.

    Given a mask, transformers copies the keys for each head and takes a kernel several times slower: on an H200 chunks of a prompt
    took longer than the whole prompt at once.
    """
    batch, heads, tokens, _ = query.shape
    if attention_mask is None or tokens == 1 or batch > 1 or module.training:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    causal, shared = causal_lower_right(tokens, key.shape[2]), key.shape[1] != heads
    output = scaled_dot_product_attention(query, key, value, attn_mask=causal, scale=scaling, enable_gqa=shared)
    return output.transpose(1, 2).contiguous(), None


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """What `sdpa` gives: `query` of shape (batch, heads, tokens, head_dim) to (batch, tokens, heads, head_dim)."""
    batch, heads, tokens, head_dim = query.shape
    scale = head_dim**-0.5 if scaling is None else scaling
    if module.training or attention_mask is None or (tokens == 1 and batch < BATCH_THRESHOLD):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scale, **options)
    if tokens > 1 or key.shape[1] != heads:
        # Grouped queries: the kernel shares keys among heads; transformers would copy them for each head in every prefill chunk.
        output = scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scale, enable_gqa=True)
        return output.transpose(1, 2).contiguous(), None
    # A decode step of a batch: two plain matrix products are quicker than a kernel made for long queries.
    scaled_query = query.transpose(-1, -2) * scale
    scores = torch.matmul(key, scaled_query).view(batch, heads, 1, -1).masked_fill_(~attention_mask, -torch.inf)
    return torch.matmul(scores.softmax(dim=-1), value).transpose(1, 2), None
