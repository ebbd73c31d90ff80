"""python -m tests.benchmarks.decode [--quick] [--gpu]

Tokens per second of one reply: this package and stock `generate()`, over the same prompt.

Both run in the same process, alternating three times. On a GPU the time per token is also compared with a lower bound: the time to
read all weights that a token needs once. The last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.our_loop import ForcedConversation
from tests.benchmarks.tools.published_loop import ForcedTokens
from tests.benchmarks.tools.random_models import random_checkpoint
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types.messages import Message, Sampling, Text


def main() -> None:
    """Run the benchmark."""
    options = benchmark_parser(
        __doc__, "a small model, a short prompt and reply", "the shape of the 7B on the GPU"
    ).parse_args()
    with tempfile.TemporaryDirectory() as name:
        checkpoint = random_checkpoint(Path(name), quick=options.quick, side=448, gpu=options.gpu)
    tokens = [100 + n % 500 for n in range(48 if options.quick else 128)]
    messages = [Message("user", (Text("blue ball " * (150 if options.quick else 1500)),))]
    speeds: dict[str, list[float]] = {"ours": [], "generate": []}
    for _ in range(3):
        speeds["ours"].append(our_speed(checkpoint, messages, tokens))
        speeds["generate"].append(stock_speed(checkpoint, messages, tokens))
    result: dict[str, float] = {
        f"{way}_tokens_per_s": round(median(each), 1) for way, each in speeds.items()
    }
    result["times_as_fast"] = round(median(speeds["ours"]) / median(speeds["generate"]), 2)
    if options.gpu:
        result |= lower_bound(checkpoint, median(speeds["ours"]))
    print(json.dumps(result))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    sentence = f"{result['times_as_fast']:.2f} times as fast as stock `generate()`"
    if "times_the_floor" in result:
        sentence += f"; a token takes {result['times_the_floor']:.2f} times as long as reading all weights once"
    return sentence


def our_speed(checkpoint: Checkpoint, messages: list[Message], tokens: list[int]) -> float:
    """Tokens per second after the first piece of text."""
    conversation = ForcedConversation(TransformersBackend(checkpoint, "random").loaded)
    conversation.forced_tokens = tokens
    stream = conversation.stream(messages, Sampling(max_new_tokens=len(tokens)), not_cancelled)
    next(stream)
    started = time.perf_counter()
    for _ in stream:
        pass
    return (len(tokens) - 1) / (time.perf_counter() - started)


@torch.inference_mode()
def stock_speed(checkpoint: Checkpoint, messages: list[Message], tokens: list[int]) -> float:
    """Tokens per second of stock `generate()` from the first token of a reply to its last."""
    backend = TransformersBackend(checkpoint, "random")
    encoded = backend.loaded.tokenizer.encode(messages[0].text)
    ids = torch.tensor([encoded], device=checkpoint.model.device)
    forced = ForcedTokens(ids.shape[1], tokens)
    arrivals: list[float] = []

    def stamp(input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        arrivals.append(time.perf_counter())
        return forced(input_ids, scores)

    how = {"max_new_tokens": len(tokens), "do_sample": False, "logits_processor": [stamp]}
    checkpoint.model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), **how)
    return (len(tokens) - 1) / (arrivals[-1] - arrivals[0])


@torch.inference_mode()
def lower_bound(checkpoint: Checkpoint, speed: float) -> dict[str, float]:
    """Milliseconds to read every weight of the language model once, and how many times as long a token takes at `speed`.

    The memory's speed is that of a large copy, bytes read and written.
    """
    model = checkpoint.model
    weights = [*model.model.language_model.layers.parameters(), model.lm_head.weight]
    source = torch.empty(2**32, dtype=torch.uint8, device=model.device)
    target, copies = torch.empty_like(source), 10
    target.copy_(source)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(copies):
        target.copy_(source)
    torch.cuda.synchronize()
    bytes_a_second = 2 * source.nbytes * copies / (time.perf_counter() - started)
    seconds = sum(weight.nbytes for weight in weights) / bytes_a_second
    return {"floor_ms": round(1000 * seconds, 3), "times_the_floor": round(1 / speed / seconds, 2)}


if __name__ == "__main__":
    main()
