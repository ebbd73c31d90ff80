"""Both halves of the small model for training on a CPU: the very functions of the stock model, several times as fast.

Each layer is one compiled function. Where the processor multiplies bfloat16, weights are cast to that on the way, so that gradients
reach weights kept in float32. Shapes are fixed: pictures of one size, batches of one length, padded on the right where causal
attention never looks.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name everybody uses
from numpy.typing import NDArray
from torch import Tensor

from vrthinker_core.training.base.model.model_shape import MERGE, PATCH
from vrthinker_core.training.run.arithmetic import multiplies_bfloat16

ROWS = 170  # Rows of the attention matrix in one block: so the upper triangle is mostly never computed
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


def arithmetic() -> torch.dtype:
    """What the layers are computed in."""
    return torch.bfloat16 if multiplies_bfloat16() else torch.float32


def to_patches(pictures: NDArray[np.uint8]) -> Tensor:
    """Pictures [n, side, side, 3] as the tower's patches, [n, patches, 3 * PATCH * PATCH], in its order (token by token)."""
    count, side, _, colours = pictures.shape
    tokens = side // PATCH // MERGE
    grid = torch.from_numpy(np.ascontiguousarray(pictures)).view(count, tokens, MERGE, PATCH, tokens, MERGE, PATCH, colours)
    patches = grid.permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(count, -1, colours, PATCH * PATCH)  # As bytes: a quarter to be moved
    mean, deviation = (torch.tensor(each)[:, None] for each in (MEAN, STD))
    return (patches * (1 / (255 * deviation)) - mean / deviation).flatten(2)


def picture_features(visual: Any, patches: Tensor) -> Tensor:
    """What the vision tower gives for images: patches [n, patches, 3 * PATCH * PATCH] to features [n, tokens, hidden]."""
    kernel = visual.patch_embed.proj.weight.sum(2).flatten(1)  # Both temporal halves see the same picture
    hidden = F.linear(patches.to(arithmetic()), _cast(kernel))
    heads = visual.blocks[0].attn.num_heads
    cos, sin = map(_cast, _picture_rotary(patches.shape[1], hidden.shape[-1] // heads))
    layer = _compiled(_vision_layer)
    for block in visual.blocks:
        hidden = layer(hidden, cos, sin, heads, *map(_cast, _vision_weights(block)))
    merger = visual.merger
    merged = F.rms_norm(hidden, (hidden.shape[-1],), _cast(merger.ln_q.weight), 1e-6).reshape(-1, merger.hidden_size)
    up, down = merger.mlp[0], merger.mlp[2]
    merged = F.gelu(F.linear(merged, _cast(up.weight), _cast(up.bias)))
    return F.linear(merged, _cast(down.weight), _cast(down.bias)).view(len(patches), -1, down.out_features)


def language_hidden(language: Any, embeddings: Tensor, positions: Tensor) -> Tensor:
    """The last hidden states [n, length, hidden] of embeddings of that shape at M-RoPE positions [3, n, length]."""
    cos, sin = _text_rotary(language.config, positions)
    hidden, layer = embeddings.to(arithmetic()), _compiled(_language_layer)
    for block in language.layers:
        hidden = layer(hidden, cos, sin, language.config.num_attention_heads, *map(_cast, _language_weights(block)))
    return F.rms_norm(hidden, (hidden.shape[-1],), _cast(language.norm.weight), 1e-6)


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # Of torch's own modules, which it loads now
        return torch.compile(function, dynamic=False)


def _cast(weight: Tensor) -> Tensor:
    return weight.to(arithmetic())


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


@cache
def _picture_rotary(patches: int, head: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [patches, head] of a square picture."""
    side = int(patches**0.5)
    steps = torch.arange(side)
    rows = steps[:, None].expand(side, side).reshape(side // MERGE, MERGE, -1, MERGE).permute(0, 2, 1, 3).reshape(-1)
    columns = steps[None].expand(side, side).reshape(side // MERGE, MERGE, -1, MERGE).permute(0, 2, 1, 3).reshape(-1)
    frequencies = 1 / 10000.0 ** (torch.arange(0, head // 2, 2) / (head // 2))
    angles = torch.cat([rows[:, None] * frequencies, columns[:, None] * frequencies], -1)
    angles = torch.cat([angles, angles], -1)
    return angles.cos(), angles.sin()


def _text_rotary(config: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [n, 1, length, head]: each section of the frequencies turns with its own axis of the positions."""
    head = config.hidden_size // config.num_attention_heads
    frequencies = 1 / config.rope_parameters["rope_theta"] ** (torch.arange(0, head, 2) / head)
    angles = (positions[..., None].float() * frequencies).split(config.rope_parameters["mrope_section"], -1)
    chosen = torch.cat([part[axis] for axis, part in enumerate(angles)], -1)[:, None]
    chosen = torch.cat([chosen, chosen], -1)
    return chosen.cos().to(arithmetic()), chosen.sin().to(arithmetic())


def _vision_weights(block: Any) -> tuple[Tensor, ...]:
    attention, mlp = block.attn, block.mlp
    halves = (each for part in (attention.qkv, attention.proj) for each in (part.weight, part.bias))
    wide = (each for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj) for each in (part.weight, part.bias))
    return (*halves, block.norm1.weight, block.norm2.weight, *wide)


def _language_weights(block: Any) -> tuple[Tensor, ...]:
    attention, mlp = block.self_attn, block.mlp
    read = (each for part in (attention.q_proj, attention.k_proj, attention.v_proj) for each in (part.weight, part.bias))
    norms = block.input_layernorm.weight, block.post_attention_layernorm.weight
    return (*read, attention.o_proj.weight, *norms, mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight)


def _vision_layer(x: Tensor, cos: Tensor, sin: Tensor, heads: int, *weights: Tensor) -> Tensor:
    w_qkv, b_qkv, w_out, b_out, norm1, norm2, w_gate, b_gate, w_up, b_up, w_down, b_down = weights
    count, patches, _ = x.shape
    normed = F.rms_norm(x, (x.shape[-1],), norm1, 1e-6)
    q, k, v = F.linear(normed, w_qkv, b_qkv).view(count, patches, 3, heads, -1).permute(2, 0, 3, 1, 4)
    q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
    mixed = torch.softmax(torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2)), -1) @ v
    x = x + F.linear(mixed.transpose(1, 2).reshape(count, patches, -1), w_out, b_out)
    normed = F.rms_norm(x, (x.shape[-1],), norm2, 1e-6)
    return x + F.linear(F.silu(F.linear(normed, w_gate, b_gate)) * F.linear(normed, w_up, b_up), w_down, b_down)


def _language_layer(x: Tensor, cos: Tensor, sin: Tensor, heads: int, *weights: Tensor) -> Tensor:
    w_q, b_q, w_k, b_k, w_v, b_v, w_out, norm1, norm2, w_gate, w_up, w_down = weights
    count, length, _ = x.shape
    normed = F.rms_norm(x, (x.shape[-1],), norm1, 1e-6)
    pairs = ((w_q, b_q), (w_k, b_k), (w_v, b_v))
    q, k, v = (F.linear(normed, w, b).view(count, length, heads, -1).transpose(1, 2) for w, b in pairs)
    mixed = _causal(_rotated(q, cos, sin), _rotated(k, cos, sin), v)
    x = x + F.linear(mixed.transpose(1, 2).reshape(count, length, -1), w_out)
    normed = F.rms_norm(x, (x.shape[-1],), norm2, 1e-6)
    return x + F.linear(F.silu(F.linear(normed, w_gate)) * F.linear(normed, w_up), w_down)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention in blocks of rows: at these lengths its backward pass is quicker than the fused kernel's in bfloat16."""
    length = q.shape[2]
    rows = -(-length // max(1, round(length / ROWS)))
    q = q * q.shape[-1] ** -0.5
    mixed = []
    for start in range(0, length, rows):
        end = min(length, start + rows)
        unseen = torch.ones(end - start, end, dtype=torch.bool).triu(start + 1)
        scores = torch.matmul(q[:, :, start:end], k[:, :, :end].transpose(-1, -2)).masked_fill(unseen, float("-inf"))
        mixed.append(torch.softmax(scores, -1) @ v[:, :, :end])
    return torch.cat(mixed, 2)
