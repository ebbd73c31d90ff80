"""The engines that serve a model: names, model facts and limits."""

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import openai
from PIL import Image

from vrthinker_core.backends.request_body import in_base64


@dataclass(frozen=True, slots=True)
class ServerEngine:
    """A program that serves models on a person's own machine."""

    title: str
    owner: str  # `owned_by` in the engine's list of models
    port: int  # The default port
    # How to give the engine a longer context
    longer: str = "Choose a model, or start the server, with a longer context."
    seeing: str = "Choose a model that does."  # How to give the engine a vision model
    cuts: bool = False  # The engine may cut a prompt that is too long without an error
    slots: int = 8  # Replies to ask a replica for at the same time, unless it says how many


ENGINES: dict[str, ServerEngine] = {
    "vllm": ServerEngine(
        "vLLM", "vllm", 8000, "Start vLLM with a larger --max-model-len.", slots=48
    ),
    "sglang": ServerEngine(
        "SGLang", "sglang", 30_000, "Start SGLang with a larger --context-length.", slots=48
    ),
    "llamacpp": ServerEngine(
        "llama.cpp",
        "llamacpp",
        8080,
        "Start llama-server with a longer context, -c 32768.",
        "Start llama-server with the file of the model's vision part, --mmproj FILE.",
    ),
    "lmstudio": ServerEngine(
        "LM Studio",
        "organization_owner",
        1234,
        "Load the model with a longer context in LM Studio, "
        "or with `lms load MODEL --context-length 32768`.",
        "Load a vision model in LM Studio.",
        cuts=True,
    ),
    "ollama": ServerEngine(
        "Ollama",
        "library",
        11_434,
        "Set OLLAMA_CONTEXT_LENGTH=32768 and start Ollama again.",
        "Choose one that does, for example `ollama pull qwen2.5vl:7b`.",
        cuts=True,
    ),
}
"""Engines, in the order in which a judge is looked for on this machine."""
UNKNOWN = ServerEngine("", "", 0)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A server's facts about a model; None for each unknown fact."""

    sees: bool | None = None  # The model takes pictures
    context_length: int | None = None
    slots: int | None = None  # Replies that it generates at the same time


def engine_of(client: openai.AsyncOpenAI, cards: Iterable[Mapping[str, Any]]) -> str:
    """Return the engine that owns the listed models; "" if unknown."""
    owners = [card.get("owned_by") for card in cards]
    # Ollama may list persons as owners
    on_port = "ollama" if client.base_url.port == ENGINES["ollama"].port else ""
    return next((name for name, engine in ENGINES.items() if engine.owner in owners), on_port)


def card_facts(card: Mapping[str, Any]) -> ModelFacts:
    """Return the facts in a model's card in the list of models."""
    # Of OpenRouter, Hugging Face and llama.cpp; then of vLLM, SGLang and OpenRouter
    takes = _inner(card, "architecture").get("input_modalities")
    length = _count(card.get("max_model_len")) or _count(card.get("context_length"))
    return ModelFacts("image" in takes if isinstance(takes, list) else None, length)


async def engine_facts(client: openai.AsyncOpenAI, engine: str, model: str) -> ModelFacts:
    """Ask the engine about a model; unknown facts if it does not say."""
    match engine:
        case "ollama":
            said = await _get(client, "/api/show", {"model": model})
            can = said.get("capabilities")
            return ModelFacts("vision" in can if isinstance(can, list) else None)
        case "lmstudio":
            found = _named(await _get(client, "/api/v1/models"), "key", model)
            sees = _inner(found, "capabilities").get("vision") if found else None
            loaded = objects_in(found.get("loaded_instances"))
            loaded.sort(key=lambda each: each.get("id") != model)
            config = _inner(loaded[0], "config") if loaded else {}
            return ModelFacts(bool(sees) if found else None, _count(config.get("context_length")))
        case "llamacpp":
            said = await _get(client, "/props")
            sees = _inner(said, "modalities").get("vision")
            length = _count(_inner(said, "default_generation_settings").get("n_ctx"))
            slots = _count(said.get("total_slots"))
            return ModelFacts(sees if isinstance(sees, bool) else None, length, slots)
        case "sglang":
            said = await _get(client, "/get_server_info")
            return ModelFacts(slots=_count(said.get("max_running_requests")))
        case "vllm":
            told = await _read(client, "/metrics")
            replicas = set(re.findall(r'^vllm:num_requests_running\{.*?engine="(\d+)"', told, re.M))
            return ModelFacts(slots=ENGINES[engine].slots * len(replicas) or None)
    return ModelFacts()


async def loaded_context(client: openai.AsyncOpenAI, engine: str, model: str) -> int | None:
    """Return the context length of a loaded model, None if unknown.

    Ask after the model's first reply: before it, the model may not be loaded, or be loaded again.
    """
    if engine != "ollama":
        return (await engine_facts(client, engine, model)).context_length
    running = await _get(client, "/api/ps")
    return _count(_named(running, "name", model).get("context_length"))


async def sees_pictures(client: openai.AsyncOpenAI, model: str) -> bool:
    """Return whether a server counts more tokens for a picture.

    A prompt is sent without and with a small picture. A server that drops pictures counts the same
    tokens for both. Returns True if the server does not count tokens, False if a request fails.
    """
    data = in_base64(Image.new("RGB", (112, 112), (200, 60, 40)), "png")
    words: Any = {"type": "text", "text": "Which colour is this?"}
    picture: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    counts = []
    try:
        async with asyncio.timeout(30):  # Other requests may come first
            for content in ([words], [picture, words]):
                reply = await client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": content}], max_tokens=1
                )
                counts.append(_count(getattr(reply.usage, "prompt_tokens", None)))
    except (openai.OpenAIError, httpx.HTTPError, ValueError, AttributeError, TimeoutError):
        return False
    plain, shown = counts
    # A text mark instead of a dropped picture has fewer than three tokens
    return plain is None or shown is None or shown - plain >= 3


async def _get(client: openai.AsyncOpenAI, path: str, body: object = None) -> dict[str, Any]:
    """Return the JSON object at a path (POST with `body`), else {}."""
    try:
        found = json.loads(await _read(client, path, body))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


async def _read(client: openai.AsyncOpenAI, path: str, body: object = None) -> str:
    """Return the text at a path beside the OpenAI API, "" if it does not come."""
    url = str(client.base_url).rstrip("/").removesuffix("/v1") + path
    ask = client.get if body is None else partial(client.post, body=body)
    try:
        async with asyncio.timeout(5):
            return (await ask(url, cast_to=httpx.Response)).text
    except (openai.OpenAIError, httpx.HTTPError, TimeoutError):
        return ""


def _named(answer: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """Find a model by its name or an instance's; {} if missing."""
    for model in objects_in(answer.get("models")):
        loaded = objects_in(model.get("loaded_instances"))
        if name in (model.get(key), *(each.get("id") for each in loaded)):
            return model
    return {}


def objects_in(found: object) -> list[dict[str, Any]]:
    """Return the JSON objects of a list; [] for anything else."""
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _inner(answer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = answer.get(key)
    return found if isinstance(found, Mapping) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
