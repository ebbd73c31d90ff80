"""python -m tests.benchmarks.decode [--quick] [--gpu] [--threads N]

Tokens per second while a reply is written: our conversation against stock `generate()`, in the same process, one after the other
and back, over the same prompt; on a GPU also against the floor, one reading of all weights that a token needs. The last line is
JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from tests.benchmarks.tools.our_loop import ForcedConversation
from tests.benchmarks.tools.published_loop import ForcedTokens
from tests.benchmarks.tools.random_models import random_checkpoint
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types.messages import Message, Sampling, Text


def main() -> None:
    """Run the benchmark."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        checkpoint = random_checkpoint(Path(name), quick=options.quick, side=448, gpu=options.gpu)
    words = [100 + n % 500 for n in range(48 if options.quick else 128)]
    messages = [Message("user", (Text("blue ball " * (150 if options.quick else 1500)),))]
    speeds: dict[str, list[float]] = {"ours": [], "generate": []}
    for _ in range(3):
        speeds["ours"].append(_ours(checkpoint, messages, words))
        speeds["generate"].append(_generate(checkpoint, messages, words))
    found: dict[str, float] = {f"{who}_tokens_per_s": round(median(each), 1) for who, each in speeds.items()}
    found["times_as_fast"] = round(median(speeds["ours"]) / median(speeds["generate"]), 2)
    if options.gpu:
        found |= _floor(checkpoint, median(speeds["ours"]))
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    print(json.dumps(found))


def _ours(checkpoint: Checkpoint, messages: list[Message], words: list[int]) -> float:
    """Tokens per second after the first, from piece to piece."""
    conversation = ForcedConversation(TransformersBackend(checkpoint, "random").loaded)
    conversation.forced_tokens = words
    stream = conversation.stream(messages, Sampling(max_new_tokens=len(words)), not_cancelled)
    next(stream)
    began = time.perf_counter()
    for _ in stream:
        pass
    return (len(words) - 1) / (time.perf_counter() - began)


@torch.inference_mode()
def _generate(checkpoint: Checkpoint, messages: list[Message], words: list[int]) -> float:
    """The same of stock `generate()`: the time of the whole less that of the first token."""
    backend = TransformersBackend(checkpoint, "random")
    ids = torch.tensor([backend.loaded.tokenizer.encode(messages[0].text)], device=checkpoint.model.device)
    times = []
    for count in (1, len(words)):
        began = time.perf_counter()
        checkpoint.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            do_sample=False,
            logits_processor=[ForcedTokens(ids.shape[1], words)],
        )
        times.append(time.perf_counter() - began)
    return (len(words) - 1) / (times[1] - times[0])


@torch.inference_mode()
def _floor(checkpoint: Checkpoint, speed: float) -> dict[str, float]:
    """How long it takes to read every weight of the language model once, and how far from it a token is."""
    weights = [*checkpoint.model.model.language_model.layers.parameters(), checkpoint.model.lm_head.weight]
    for weight in weights:
        weight.sum()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        for weight in weights:
            weight.sum()
    torch.cuda.synchronize()
    floor = (time.perf_counter() - began) / 10
    return {"floor_ms": round(1000 * floor, 3), "times_the_floor": round(1 / speed / floor, 2)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0 leaves torch its choice")
    return parser.parse_args()


if __name__ == "__main__":
    main()
