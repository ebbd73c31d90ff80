"""Offers: the judges for this machine, its servers, and what is missing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import openai

from vrthinker_core.backends.checkpoint_files import is_downloaded, published_protocol
from vrthinker_core.backends.devices import Needs, available_memory, best_device
from vrthinker_core.backends.engines import (
    ENGINES,
    UNKNOWN,
    card_facts,
    engine_facts,
    engine_of,
    sees_pictures,
)
from vrthinker_core.backends.judge_name import DEFAULT_CHECKPOINT, JUDGES, Bits, JudgeName
from vrthinker_core.backends.served_model import Connection, Patience, list_models, read_key
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import BackendRefused

NEEDS_OF_7B: dict[Bits | None, Needs] = {
    None: Needs(16_584_333_312, 1_146_880_000),
    "8bit": Needs(10_059_044_864, 1_146_880_000),
    "4bit": Needs(6_899_951_360, 1_146_880_000),
}
"""What `needs_of` returns for the published 7B in bfloat16, 8 bits and 4 bits."""

PORTS = tuple(engine.port for engine in ENGINES.values())
LOOK_SECONDS = 0.3  # Time for a server to list its models

START_ONE = (
    "Start one, for example `ollama run qwen2.5vl:7b` with OLLAMA_CONTEXT_LENGTH=32768, LM Studio "
    "or llama-server with a vision model, or `vllm serve qunwang13/vrthinker`; "
    "name another address with server:URL#MODEL, or choose nano."
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A judge and its state on this machine."""

    judge: str  # The name to type behind --judge
    real_videos: bool  # False: it judges drawn scenes only
    trained: bool  # False: it was not trained for this task and is told the rules in words
    needs: str  # Memory, download, key or server
    missing: str = ""  # What this machine lacks, and what to do; "" if the judge runs
    slow: str = ""  # Why it runs and is no good choice


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server on this machine."""

    engine: str  # Display name; "" for an unknown engine
    url: str
    models: tuple[str, ...]  # Only models that take pictures
    locked: bool = False  # It wants a key, so its models are not known


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
    slow = "Without a GPU each turn takes minutes." if device == "cpu" else ""
    whole = NEEDS_OF_7B[None].weights / 1e9
    fetch = "" if is_downloaded(DEFAULT_CHECKPOINT) else f", a download of {whole:.1f} GB"
    for bits, needs in NEEDS_OF_7B.items():
        missing = ""
        if bits and find_spec("bitsandbytes") is None:
            missing = "Run pip install -e '.[quantize]' first."
        if free is not None and needs.total > free:
            missing = f"Only {free / 1e9:.1f} GB are free: take fewer bits, or a judge on a server."
        name = f"hf:{DEFAULT_CHECKPOINT}" + (f"?quantize={bits}" if bits else "")
        told = f"{needs.total / 1e9:.1f} GB of {memory}{fetch}"
        yield Offer(name, True, True, told, missing, slow)


def _running(servers: list[LocalServer]) -> Iterator[Offer]:
    """Yield the vision models of this machine's servers."""
    for server in servers:
        needs = server.engine or "a server"
        if server.locked:
            missing = "Set VRTHINKER_API_KEY to its key."
            yield Offer(f"server:{server.url}", True, False, needs, missing)
        for model in server.models:
            trained = published_protocol([model]) is not None
            yield Offer(f"local:{model}", True, trained, needs)
    if not any(server.models for server in servers):
        none = "None was found with a model that sees pictures: "
        none += "start one, for example with ollama run qwen2.5vl:7b."
        yield Offer("local", True, False, "a server on this machine", none)


def local_key() -> Secret:
    """Return a local server's key, which is never the key of a host."""
    return read_key(("VRTHINKER_API_KEY",))


def local_servers(
    ports: Sequence[int] = PORTS, seconds: float = LOOK_SECONDS, secret: Secret | None = None
) -> list[LocalServer]:
    """Find every server on this machine, with its vision models.

    All ports of 127.0.0.1 are asked at once, and each server has `seconds` to answer. The servers
    are sent `secret`, or the key of `local_key`.
    """
    secret, patience = secret or local_key(), Patience(connect=seconds)
    addresses = [JudgeName("server", f"http://127.0.0.1:{port}/v1") for port in ports]
    connections = [Connection(address, secret, patience) for address in addresses]
    try:
        looks = [each.submit(_look(each.client, seconds)) for each in connections]
        return [server for look in looks if (server := look.result()) is not None]
    finally:
        for each in connections:
            each.close()


def find_local(
    model: str = "", ports: Sequence[int] = PORTS, seconds: float = LOOK_SECONDS
) -> JudgeName:
    """Find the first vision model, or the model of this name.

    Raises `BackendRefused`, which says what to start, if there is none.
    """
    servers = local_servers(ports, seconds)
    for server in servers:
        for each in server.models:
            if model in ("", each, each.split(":")[0]):  # The name may lack Ollama's tag
                return JudgeName("server", server.url, each)
    if not servers:
        raise BackendRefused(f"No server was found on this machine. {START_ONE}")
    names = " and ".join(server.engine or "A server" for server in servers)
    wanted = f"no model {model!r}" if model else "no model"
    seeing = ", ".join(each for server in servers for each in server.models)
    has = f" It has {seeing}." if seeing else ""
    raise BackendRefused(
        f"{names} on this machine has {wanted} that sees pictures.{has} {START_ONE}"
    )


async def _look(client: openai.AsyncOpenAI, seconds: float) -> LocalServer | None:
    """Return the server at an address, None if there is none."""
    url = str(client.base_url).rstrip("/")
    try:
        async with asyncio.timeout(seconds):
            cards = await list_models(client)
        engine, alone = engine_of(client, cards), len(cards) == 1
        sees = await asyncio.gather(*(_sees(client, engine, card, alone) for card in cards))
    except openai.AuthenticationError as refusal:
        if "json" not in refusal.response.headers.get("content-type", ""):
            return None
        on_port = (each for each in ENGINES.values() if each.port == client.base_url.port)
        known = next((each.title for each in on_port), "")
        return LocalServer(known, url, (), locked=True)
    except Exception:  # noqa: BLE001 - any other program may answer at this port
        return None
    models = tuple(str(card["id"]) for card, seen in zip(cards, sees, strict=True) if seen)
    return LocalServer(ENGINES.get(engine, UNKNOWN).title, url, models)


async def _sees(
    client: openai.AsyncOpenAI, engine: str, card: Mapping[str, Any], alone: bool
) -> bool:
    """Return whether a model takes pictures.

    The server's own statement comes first. Without it, a small picture is sent, but only to a
    single model or to an engine that holds its models in memory: `transformers serve` would load
    each model.
    """
    name = str(card["id"])
    said = card_facts(card).sees
    if said is None:
        said = (await engine_facts(client, engine, name)).sees
    if said is None and (alone or engine in ("vllm", "sglang")):
        said = await sees_pictures(client, name)
    return bool(said)
