"""Offers: the judges for this machine, their needs, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from vrthinker_core.backends.checkpoint_files import is_downloaded, published_protocol
from vrthinker_core.backends.devices import Needs, available_memory, best_device
from vrthinker_core.backends.discover import LocalServer, local_servers
from vrthinker_core.backends.judge_name import DEFAULT_CHECKPOINT, JUDGES, Bits

NEEDS_OF_7B: dict[Bits | None, Needs] = {
    None: Needs(16_584_333_312, 1_146_880_000),
    "8bit": Needs(10_059_044_864, 1_146_880_000),
    "4bit": Needs(6_899_951_360, 1_146_880_000),
}
"""What `needs_of` returns for the published 7B in bfloat16, 8 bits and 4 bits."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A judge and its state on this machine."""

    judge: str  # The name to type behind --judge
    real_videos: bool  # False: it judges drawn scenes only
    trained: bool  # False: it was not trained for this task and is told the rules in words
    needs: str  # Memory, download, key or server
    missing: str = ""  # What this machine lacks, and what to do; "" if the judge runs
    slow: str = ""  # Why it runs and is no good choice


def offers(servers: list[LocalServer]) -> list[Offer]:
    """List every kind of judge, the best for real videos first."""
    found = [*_published(), *_running(servers)]
    for entry in JUDGES.values():
        if host := entry.host:
            missing = "" if os.environ.get(host.key, "").strip() else f"Set {host.key} to your key."
            found.append(Offer(entry.form, True, False, f"a key of {host.name}", missing))
    return [*found, Offer("nano", False, True, "nothing")]


def best_choice(servers: list[LocalServer] | None = None) -> str:
    """Name the best judge that runs here without a key.

    That is the published 7B on a GPU, else a model of a server here, else the demo judge.
    `servers`: the result of `local_servers`, if it was called already.
    """
    if best_device() != "cpu":
        for offer in _published():
            if not offer.missing and "8bit" not in offer.judge:
                return offer.judge
    running = _running(local_servers() if servers is None else servers)
    return next((offer.judge for offer in running if not offer.missing), "nano")


def _published() -> Iterator[Offer]:
    """Yield the published 7B in bfloat16, 8 bits and 4 bits."""
    device = best_device()
    free = available_memory(device)
    memory = "memory" if device == "cpu" else f"{device.upper()} memory"
    whole = NEEDS_OF_7B[None].weights / 1e9
    fetch = "" if is_downloaded(DEFAULT_CHECKPOINT) else f", a download of {whole:.1f} GB"
    for bits, needs in NEEDS_OF_7B.items():
        slow = "Without a GPU each turn takes minutes." if device == "cpu" else ""
        missing = ""
        if bits and find_spec("bitsandbytes") is None:
            missing = "Run pip install -e '.[quantize]' first."
        if free is not None and needs.total > free:
            missing = f"Only {free / 1e9:.1f} GB are free: take fewer bits, or a judge on a server."
        name = f"hf:{DEFAULT_CHECKPOINT}" + (f"?quantize={bits}" if bits else "")
        yield Offer(
            name, True, True, f"{needs.total / 1e9:.1f} GB of {memory}{fetch}", missing, slow
        )


def _running(servers: list[LocalServer]) -> Iterator[Offer]:
    """Yield the vision models of this machine's servers."""
    for server in servers:
        if server.locked:
            missing = "Set VRTHINKER_API_KEY to its key."
            yield Offer(f"server:{server.url}", True, False, server.engine or "a server", missing)
        for model in server.models:
            trained = published_protocol([model]) is not None
            yield Offer(f"local:{model}", True, trained, server.engine or "a server")
    if not any(server.models for server in servers):
        none = "None was found with a model that sees pictures: "
        none += "start one, for example with ollama run qwen2.5vl:7b."
        yield Offer("local", True, False, "a server on this machine", none)
