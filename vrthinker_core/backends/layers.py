"""A Qwen2.5-VL's layers in fewer operations than the modules of transformers."""

import functools
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

PROMPTS = "vrthinker_prompts"
"""Name of `attend_prompt`."""


def attention_for(device: str, dtype: torch.dtype) -> dict[str, str]:
    """Return a Qwen2.5-VL's `attn_implementation`; register ours if it is faster there."""
    text = "sdpa"
    if device.startswith("cuda") if dtype.itemsize == 2 else device == "cpu":
        AttentionInterface.register(text := PROMPTS, attend_prompt)
        AttentionMaskInterface.register(text, sdpa_mask)
    return {"": "sdpa", "vision_config": "sdpa", "text_config": text}


def attend_prompt(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute what `sdpa` gives for a part of a prompt, without copies of keys.

    `query` is (batch, heads, tokens, head_dim), the result (batch, tokens, heads, head_dim). Given
    a mask, transformers copies grouped keys for each head, and a GPU takes a kernel that is not
    FlashAttention; a single sequence's mask is causal, lower right.
    """
    one, plain = len(query) == 1, module.training or options.get("sliding_window")
    if attention_mask is None or plain or query.shape[2] == 1 or (query.is_cuda and not one):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
    mask: Any = attention_mask
    if query.is_cuda:
        mask = causal_lower_right(query.shape[2], key.shape[2])
    output = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,  # noqa: ARG001
    scaling: float | None = None,
    *,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attend within each window, in one call for all windows of one length.

    `query`, `key` and `value` are (1, heads, tokens, head_dim), the result (1, tokens, heads,
    head_dim). `cu_seq_lens_q` holds where windows end; the longest has `max_length_q` tokens.
    """
    heads, tokens, size = query.shape[1:]
    by_token = [states[0].transpose(0, 1) for states in (query, key, value)]

    def attended(states: Sequence[Tensor], length: int) -> Tensor:
        """Return the windows' tokens, (tokens, heads, head_dim)."""
        q, k, v = (each.reshape(-1, length, heads, size).transpose(1, 2) for each in states)
        output = scaled_dot_product_attention(q, k, v, scale=scaling)
        return output.transpose(1, 2).reshape(-1, heads, size)

    if (len(cu_seq_lens_q) - 1) * max_length_q == tokens:  # All have one length
        return attended(by_token, max_length_q)[None], None
    if flash := flash_attention(query.device, query.dtype, size):
        ends, most = cu_seq_lens_q.int(), int(max_length_q)
        return flash(*by_token, ends, ends, most, most, scale=scaling)[None], None
    output = torch.empty_like(by_token[0])
    starts, lengths = cu_seq_lens_q[:-1], cu_seq_lens_q.diff()
    for length in sorted(set(lengths.tolist())):
        places = starts[lengths == length, None] + torch.arange(length, device=starts.device)
        rows = places.flatten()
        output[rows] = attended([states[rows] for states in by_token], length)
    return output[None], None


# Keys and values of one layer, (batch, groups, rows, head_dim) each
LayerStorage = tuple[Tensor, Tensor]

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Attention of one token of each sequence: given a layer's number, queries, (batch, groups, heads of
a group, head_dim), and the token's key and value, (batch, groups, head_dim). It writes both to the
KV cache and returns what `queries` gather from the cache, in their shape.
"""


class DecodeStep:
    """A Qwen2.5-VL's language model for one token of each sequence, written out.

    A token passes 18 operations a layer, 37 in the modules of transformers: on a GPU each is a
    kernel to launch. Projections of the same input are one product: their weights become views of
    one tensor at the first step. Thread-safe.
    """

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration) -> None:
        self.model = model
        text: Any = model.config.get_text_config()
        self._heads, self._groups = text.num_attention_heads, text.num_key_value_heads
        self._eps = text.rms_norm_eps
        self._layers: list[_Layer] = []
        self._lock = threading.Lock()

    @staticmethod
    def fits(model: Qwen2_5_VLForConditionalGeneration) -> bool:
        """Return whether steps can run the model.

        The whole model must be on one device, each layer must read every row of the KV cache, and
        the angles of a position must not depend on a prompt's length.
        """
        text: Any = model.config.get_text_config()
        types = getattr(text, "layer_types", None) or ["full_attention"]
        spread = len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
        varies = text.rope_parameters["rope_type"] in ("dynamic", "longrope")
        return set(types) == {"full_attention"} and not spread and not varies

    def __call__(self, tokens: Tensor, positions: Tensor, attend: Attend) -> Tensor:
        """Return the logits after each token, (batch, vocabulary) in float32.

        `tokens` and `positions` are (batch,): for text, the three axes of m-RoPE are equal.
        """
        model: Any = self.model
        decoder, batch = model.model.language_model, len(tokens)
        hidden = decoder.embed_tokens(tokens)
        rotary = decoder.rotary_emb
        angles = positions[:, None, None].float() * rotary.inv_freq
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = (
            (each * rotary.attention_scaling).to(hidden.dtype)
            for each in (angles.cos(), angles.sin())
        )
        half, turned_heads = angles.shape[-1] // 2, self._heads + self._groups
        for number, layer in enumerate(self._fused()):
            heads = layer.qkv(self._norm(hidden, layer.input_norm)).view(batch, -1, 2 * half)
            turned = heads[:, :turned_heads]
            opposite = torch.cat((-turned[..., half:], turned[..., :half]), dim=-1)
            turned = turned * cos + opposite * sin
            query = turned[:, : self._heads].view(batch, self._groups, -1, 2 * half)
            key, value = turned[:, self._heads :], heads[:, turned_heads:]
            gathered = attend(number, query, key, value).reshape(batch, -1)
            hidden = hidden + layer.out(gathered)
            gate, up = layer.gate_up(self._norm(hidden, layer.mlp_norm)).chunk(2, dim=-1)
            hidden = hidden + layer.down(layer.activation(gate) * up)
        logits: Tensor = model.lm_head(self._norm(hidden, decoder.norm.weight))
        return logits.float()

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(hidden, hidden.shape[-1:], weight, self._eps)

    def _fused(self) -> "list[_Layer]":
        with self._lock:
            if not self._layers:
                decoder: Any = self.model.model.language_model
                self._layers = list(map(_written_out, decoder.layers))
        return self._layers


Project = Callable[[Tensor], Tensor]


class _Layer(NamedTuple):
    """What a token passes in a layer, in this order."""

    input_norm: Tensor
    qkv: Project
    out: Project
    mlp_norm: Tensor
    gate_up: Project
    down: Project
    activation: Project


def _written_out(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        layer.input_layernorm.weight,
        fuse(attention.q_proj, attention.k_proj, attention.v_proj),
        fuse(attention.o_proj),
        layer.post_attention_layernorm.weight,
        fuse(mlp.gate_proj, mlp.up_proj),
        fuse(mlp.down_proj),
        mlp.act_fn,
    )


@torch.inference_mode(mode=False)
@torch.no_grad()
def fuse(*linears: torch.nn.Linear) -> Project:
    """Return the layers' outputs side by side as one product, if all hold plain weights.

    Weights and biases become views of their concatenation, so they take no more memory.
    """
    if any(type(each) is not torch.nn.Linear for each in linears):  # Adapters, fewer bits
        return lambda hidden: torch.cat([each(hidden) for each in linears], dim=-1)

    def joined(parameters: Sequence[Any]) -> Tensor | None:
        if len(parameters) == 1 or parameters[0] is None:
            first: Tensor | None = parameters[0]
            return first
        whole = torch.cat(tuple(parameters))
        parts: Any = torch.split(whole, [len(each) for each in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.data = part
        return whole

    weight = joined([each.weight for each in linears])
    bias = joined([each.bias for each in linears])
    return lambda hidden: F.linear(hidden, weight, bias)  # type: ignore[arg-type]


def attend_from_row(storage: Sequence[LayerStorage], row: int) -> Attend:
    """Attend from one sequence's `row` to itself and all rows before."""

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = storage[layer]
        keys[:, :, row], values[:, :, row] = key, value
        visible = slice(row + 1)
        return scaled_dot_product_attention(query, keys[:, :, visible], values[:, :, visible])

    return attend


class RowAttention:
    """Attention of one sequence from the row that a tensor names: a CUDA graph can replay it.

    `storage`, the KV cache, never moves. FlashAttention reads only used rows, many at the same
    time; elsewhere a mask hides the unused rows.
    """

    def __init__(self, storage: Sequence[LayerStorage]) -> None:
        keys = storage[0][0]
        self.storage = storage
        self.row = torch.zeros(1, dtype=torch.long, device=keys.device)
        """The row that the token is written to, (1,)."""
        self._rows = torch.arange(keys.shape[2], device=keys.device)
        self._flash = flash_attention(keys.device, keys.dtype, keys.shape[3])

    def attend(self) -> Attend:
        """Attend from the row to itself and all rows before, in one decode step."""
        rows, flash = len(self._rows), self._flash
        if flash is None:
            mask = (self._rows <= self.row)[None]
        else:
            ends = F.pad(torch.stack((torch.ones_like(self.row), self.row + 1)), (1, 0)).int()

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            both = self.storage[layer]
            for all_rows, new in zip(both, (key, value), strict=True):
                all_rows.index_copy_(2, self.row, new[:, :, None])
            if flash is None:
                return scaled_dot_product_attention(query, *both, attn_mask=mask)
            by_row = [each[0].transpose(0, 1) for each in both]
            gathered = flash(query.flatten(1, 2), *by_row, *ends, 1, rows, enable_gqa=True)
            return gathered.view(query.shape)

        return attend


@functools.cache
def flash_attention(
    device: torch.device, dtype: torch.dtype, head_dim: int
) -> Callable[..., Tensor] | None:
    """Return torch's attention for sequences of different lengths where it gives what `sdpa` gives.

    It takes a GPU that FlashAttention supports, and numbers of two bytes; None elsewhere.
    """
    if device.type != "cuda" or dtype.itemsize != 2:
        return None
    try:
        varlen_attn: Any = import_module("torch.nn.attention.varlen").varlen_attn
        query, key = (torch.randn(n, n, head_dim, device=device, dtype=dtype) for n in (2, 1))
        rows = key.repeat(3, 1, 1)
        ends = torch.tensor([[0, 1, 2], [0, 1, 3]], dtype=torch.int32, device=device)
        found = varlen_attn(query, rows, rows, *ends, 1, 3, enable_gqa=True)
        torch.testing.assert_close(found, key.expand(2, 2, -1), atol=1e-2, rtol=1e-2)
    except (ImportError, AttributeError, RuntimeError, TypeError, ValueError, AssertionError):
        return None
    attend: Callable[..., Tensor] = varlen_attn
    return attend
