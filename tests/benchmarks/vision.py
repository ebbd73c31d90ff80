"""python -m tests.benchmarks.vision [--quick]

Attention calls of a vision pass over 24 frames of 448 x 448, and operations a layer of a decode step: this package and transformers.

Counted on a processor with the 7B's depth and narrow layers: on a GPU each operation is a kernel to launch. With --quick only this
package is counted. The last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from tests.backends.support.random_model import noise_frame, small_config
from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.random_models import build_on_device, shape_of_7b
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.kv_cache import PrefixCache
from vrthinker_core.backends.layers import DecodeStep
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.backends.vision_encoder import VisionEncoder

FRAMES, SIDE = 24, 448


def main() -> None:
    """Run the benchmark."""
    options = benchmark_parser(__doc__, "this package alone").parse_args()
    with tempfile.TemporaryDirectory() as name:
        checkpoint = build_on_device(Path(name), narrow_7b(), SIDE, "cpu", torch.float32)
    config = deepcopy(checkpoint.model.config)
    loaded = TransformersBackend(checkpoint, "narrow").loaded
    result: dict[str, Any] = {"frames": FRAMES}
    result |= counts(loaded.model, loaded.vision, loaded.step)
    if not options.quick:
        own = Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="sdpa")
        vision = VisionEncoder(own.eval(), checkpoint.processor)
        own.model.visual.config._attn_implementation_internal = "sdpa"
        stock = counts(own, vision, None)
        result |= {f"stock_{name}": number for name, number in stock.items()}
    print(json.dumps(result))


def counts(
    model: Qwen2_5_VLForConditionalGeneration, vision: VisionEncoder, step: DecodeStep | None
) -> dict[str, float]:
    """Attention calls of a vision pass, and operations a layer of a decode step."""
    frames = [noise_frame(n, SIDE, SIDE) for n in range(FRAMES)]
    items = [vision.vision_item("image", (frame,)) for frame in frames]
    encoded = count(lambda: vision.encode(items))
    cache = PrefixCache(model, vision, step)
    cache.prefill([100, 101, 102], not_cancelled)
    cache.decode(103)  # The first step joins the weights
    stepped = count(lambda: cache.decode(104))
    layers = model.config.get_text_config().num_hidden_layers
    return {
        "attention_calls": encoded["scaled_dot_product_attention"],
        "operations_a_layer": round(stepped.total() / layers, 1),
    }


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    calls, operations = result["attention_calls"], result["operations_a_layer"]
    sentence = f"{calls} attention calls, {operations} operations a layer"
    if "stock_attention_calls" in result:
        stock = result["stock_attention_calls"], result["stock_operations_a_layer"]
        sentence += f"; transformers: {stock[0]:,} and {stock[1]}"
    return sentence


def narrow_7b() -> Qwen2_5_VLConfig:
    """The 7B with all its layers and heads, of which each is 16 numbers wide."""
    config = shape_of_7b()
    text, vision = config.text_config.to_dict(), config.vision_config.to_dict()
    rope = text["rope_parameters"] | {"mrope_section": [2, 3, 3]}
    narrow = {"hidden_size": 448, "intermediate_size": 128, "vocab_size": 1024}
    text |= narrow | {"rope_parameters": rope}
    vision |= {"hidden_size": 256, "intermediate_size": 256, "out_hidden_size": 448}
    return small_config(text, vision)


class Operations(TorchDispatchMode):
    """Counts operations by name, without those that only look at a tensor in another way."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        aliases = [each.alias_info for each in function._schema.returns]
        if not any(alias is not None and not alias.is_write for alias in aliases):
            self.counts[function._schema.name.removeprefix("aten::")] += 1
        return function(*args, **(kwargs or {}))


@torch.inference_mode()
def count(run: Callable[[], object]) -> Counter[str]:
    """The operations of a call."""
    with Operations() as operations:
        run()
    return operations.counts


if __name__ == "__main__":
    main()
