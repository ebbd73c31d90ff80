"""Discovery of servers with a vision model on this machine."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import openai

from vrthinker_core.backends.engines import (
    ENGINES,
    card_facts,
    engine_facts,
    engine_of,
    sees_pictures,
)
from vrthinker_core.backends.judge_name import JudgeName
from vrthinker_core.backends.served_model import (
    LoopThread,
    Patience,
    list_models,
    make_client,
    read_key,
)
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import BackendRefused

PORTS = tuple(engine.port for engine in ENGINES.values())
LOOK_SECONDS = 0.3  # Time for a server to list its models

START_ONE = (
    "Start one, for example `ollama run qwen2.5vl:7b` with OLLAMA_CONTEXT_LENGTH=32768, LM Studio "
    "or llama-server with a vision model, or `vllm serve qunwang13/vrthinker`; "
    "name another address with server:URL#MODEL, or choose nano."
)


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server on this machine."""

    engine: str  # Display name; "" for an unknown engine
    url: str
    models: tuple[str, ...]  # Only models that take pictures
    locked: bool = False  # It wants a key, so its models are not known


def local_key() -> Secret:
    """Return the key for a server on this machine.

    Only `VRTHINKER_API_KEY` is read: an unknown server on a port must not get the key of a host.
    """
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
    clients = [make_client(address, secret, patience) for address in addresses]
    thread = LoopThread("servers of this machine")

    async def close() -> None:
        for client in clients:
            await client.close()

    try:
        looks = [thread.submit(_look(client, seconds)) for client in clients]
        return [server for look in looks if (server := look.result()) is not None]
    finally:
        thread.close(close())


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
    root = url.removesuffix("/v1")
    try:
        async with asyncio.timeout(seconds):
            _, cards = await list_models(client)
        engine, alone = engine_of(root, cards), len(cards) == 1
        sees = await asyncio.gather(*(_sees(client, root, engine, card, alone) for card in cards))
    except openai.AuthenticationError as refusal:
        if "json" not in refusal.response.headers.get("content-type", ""):
            return None
        port = urlsplit(root).port
        known = next((each.title for each in ENGINES.values() if each.port == port), "")
        return LocalServer(known, url, (), locked=True)
    except Exception:  # noqa: BLE001 - any other program may answer at this port
        return None
    models = tuple(str(card["id"]) for card, seen in zip(cards, sees, strict=True) if seen)
    return LocalServer(ENGINES[engine].title if engine else "", url, models)


async def _sees(
    client: openai.AsyncOpenAI, root: str, engine: str, card: Mapping[str, Any], alone: bool
) -> bool:
    """Return whether a model takes pictures.

    The server's own statement comes first. Without it, a small picture is sent, but only to a
    single model or to an engine that holds its models in memory: `transformers serve` would load
    each model.
    """
    name = str(card["id"])
    said = card_facts(card).sees
    if said is None:
        said = (await engine_facts(client, root, engine, name)).sees
    if said is None and (alone or engine in ("vllm", "sglang")):
        said = await sees_pictures(client, name)
    return bool(said)
