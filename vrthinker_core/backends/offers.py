"""The judges that this machine could run: what each needs, whether that is here, and what to do if it is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from transformers import Qwen2_5_VLConfig

from vrthinker_core.backends.built_in import DEFAULT_CHECKPOINT
from vrthinker_core.backends.discover import LocalServer, local_servers
from vrthinker_core.backends.hosted import HOSTS
from vrthinker_core.backends.judge_name import Bits
from vrthinker_core.backends.local.checkpoint.checkpoint_files import (
    is_downloaded,
    published_protocol,
)
from vrthinker_core.backends.local.checkpoint.devices import available_memory, best_device
from vrthinker_core.backends.local.checkpoint.loader import without_values
from vrthinker_core.backends.local.checkpoint.quantize import needs_of

SLOW = "It runs, but takes minutes for each turn on a processor."


@dataclass(frozen=True, slots=True)
class Offer:
    """A judge, as it stands on this machine."""

    judge: str  # The name to type behind --judge
    real_videos: bool  # It can judge them; else drawn scenes alone
    trained: bool  # For this task; else it is told the rules in words
    needs: str  # Memory, download, key or server
    missing: str = ""  # What is not here, and what to do; "" if it runs


def offers(servers: list[LocalServer]) -> list[Offer]:
    """List every kind of judge, the best for real videos first."""
    return [*_published(), *_running(servers), *_hosted(), Offer("nano", False, True, "nothing")]


def best_choice(servers: list[LocalServer] | None = None) -> str:
    """Name the best judge that runs here without a key.

    That is the published 7B on a GPU, in bfloat16 or else in 4 bits, a model of a server on this machine, or the demo judge.
    `servers`: those of this machine, if they were asked already.
    """
    if best_device() != "cpu":
        for offer in _published():
            if not offer.missing and "8bit" not in offer.judge:
                return offer.judge
    running = _running(local_servers() if servers is None else servers)
    return next((offer.judge for offer in running if not offer.missing), "nano")


def published_shape() -> Any:
    """The published 7B without values, as its config.json describes it."""
    text = {"vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944}
    text |= {"num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4}
    vision = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16}
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision | {"out_hidden_size": 3584},
        tie_word_embeddings=False,
    )
    return without_values(config)


def _published() -> Iterator[Offer]:
    """The published 7B, whole and in fewer bits."""
    device, shape = best_device(), published_shape()
    free = available_memory(device)
    memory = "memory" if device == "cpu" else f"{device.upper()} memory"
    whole = needs_of(shape, None, torch.bfloat16).weights / 1e9
    fetch = "" if is_downloaded(DEFAULT_CHECKPOINT) else f", a download of {whole:.1f} GB"
    ways: tuple[Bits | None, ...] = (None, "8bit", "4bit")
    for bits in ways:
        needed = needs_of(shape, bits, torch.bfloat16).total
        missing = SLOW if device == "cpu" else ""
        if bits and find_spec("bitsandbytes") is None:
            missing = "Run pip install -e '.[quantize]' first."
        if free is not None and needed > free:
            missing = f"Only {free / 1e9:.1f} GB are free: take fewer bits, or a judge on a server."
        name = f"hf:{DEFAULT_CHECKPOINT}" + (f"?quantize={bits}" if bits else "")
        yield Offer(name, True, True, f"{needed / 1e9:.1f} GB of {memory}{fetch}", missing)


def _running(servers: list[LocalServer]) -> Iterator[Offer]:
    """The models of this machine's servers that see pictures."""
    for server in servers:
        for model in server.models:
            trained = published_protocol([model]) is not None
            yield Offer(f"local:{model}", True, trained, server.engine or "a server")
    if not any(server.models for server in servers):
        yield Offer(
            "local",
            True,
            False,
            "a server on this machine",
            "None was found with a model that sees pictures: start one, for example `ollama run qwen2.5vl:7b`.",
        )


def _hosted() -> Iterator[Offer]:
    for kind, host in HOSTS.items():
        missing = "" if os.environ.get(host.key, "").strip() else f"Set {host.key} to your key."
        yield Offer(f"{kind}:MODEL", True, False, f"a key of {host.name}", missing)
