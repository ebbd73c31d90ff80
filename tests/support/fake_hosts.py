"""Servers that speak as the official engines and hosts do, their faults included, after their documents and issues."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.support.faulty_server import (
    ANSWER,
    Answer,
    FaultyServer,
    Handler,
    delta,
    refuses,
    serving,
    usage,
)
from vrthinker_core.backends.judge_name import JUDGES, Host

LOOK = (
    "<Snapshot>Both show a block.</Snapshot><Think>I want to see more.</Think>\n"
    '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30, 60, 90]}}</tool_call>'
)
VISION, TEXT_ONLY = "qwen2.5vl:7b", "llama3.2:3b"
KEY = "sk-right-0123456789"
BLIND = (
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
)

Refusal = Callable[[dict[str, Any]], Answer | None]
"""Whether a server refuses a body, and how."""


def parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    """All parts of all messages; a plain text is one of them."""
    contents = [message["content"] for message in body["messages"]]
    return [
        part
        for content in contents
        for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
    ]


def pictures(body: dict[str, Any]) -> int:
    return sum(part["type"] == "image_url" for part in parts(body))


def count(body: dict[str, Any], picture: int = 256) -> int:
    """Tokens of a prompt: a third more than it has words, and those of its pictures."""
    words = sum(len(re.findall(r"\w+", part.get("text", ""))) for part in parts(body))
    return words * 4 // 3 + 4 * len(body["messages"]) + picture * pictures(body)


def replies(
    *refusals: Refusal,
    counted: Callable[[dict[str, Any]], int] = count,
    more: dict[str, Any] | None = None,
) -> Answer:
    """The first turn asks for frames and the second one answers, unless a refusal comes before; the prompt is counted."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        refused = next(filter(None, (refusal(body) for refusal in refusals)), None)
        if refused is not None:
            return refused(handler, body)
        roles = {message["role"] for message in body["messages"]}
        text = ANSWER if "assistant" in roles else LOOK
        if not body.get("stream"):
            message = {"role": "assistant", "content": text[: 4 * body["max_tokens"]]}
            end = usage(counted(body), 1) | {"object": "chat.completion"}
            choices = [{"index": 0, "message": message, "finish_reason": "length"}]
            return handler.send_json(200, end | {"choices": choices})
        handler.begin_stream()
        last = usage(counted(body), len(text) // 4)
        last["usage"] |= more or {}
        for event in (delta(text), delta(None, "stop"), last, b"[DONE]"):
            handler.send_event(event)
        return None

    return answer


def gives(answer: Any, status: int = 200) -> Answer:
    """The same JSON for every request."""
    return lambda handler, _: handler.send_json(status, answer)


# -- engines of one's own -----------------------------------------------------------------------------------------------


@contextmanager
def ollama(
    *models: str, context: int = 32_768, picture: int = 256, owner: str = "library"
) -> Iterator[FaultyServer]:
    """A prompt longer than its context loses its oldest messages, then the beginning of what is left, without a word."""
    models = models or (TEXT_ONLY, VISION)

    def show(handler: Handler, body: dict[str, Any]) -> None:
        if body["model"] not in models:
            return handler.send_json(404, {"error": f"model '{body['model']}' not found"})
        can = ["completion"] + ["vision"] * (body["model"] != TEXT_ONLY)
        return handler.send_json(200, {"capabilities": can, "details": {}})

    def running(handler: Handler, _: dict[str, Any]) -> None:
        loaded = {body["model"] for body in server.bodies}
        listed = [{"name": name, "model": name, "context_length": context} for name in loaded]
        handler.send_json(200, {"models": listed})

    def cut(body: dict[str, Any]) -> int:
        system, *others = body["messages"]
        while len(others) > 1 and count({"messages": [system, *others]}, picture) > context:
            others.pop(0)
        return min(context, count({"messages": [system, *others]}, picture))

    cards = tuple({"id": name, "object": "model", "owned_by": owner} for name in models)
    routes = {"/api/show": show, "/api/ps": running}
    with serving(replies(counted=cut), cards=cards, routes=routes) as server:
        yield server


def lmstudio(
    *, context: int | None = 32_768, vision: bool = True
) -> AbstractContextManager[FaultyServer]:
    """Takes pictures as data URIs of PNG and JPEG alone."""
    name, most = "qwen/qwen3-vl-8b", {"max_context_length": 262_144}
    loaded = [{"id": name, "config": {"context_length": context}}] if context else []
    can = {"capabilities": {"vision": vision, "trained_for_tool_use": True}, **most}
    listed = [
        {"type": "embedding", "key": "nomic", "loaded_instances": []},
        {"type": "llm", "key": name, "loaded_instances": loaded, **can},
    ]

    def odd_picture(body: dict[str, Any]) -> Answer | None:
        urls = [part["image_url"]["url"] for part in parts(body) if part["type"] == "image_url"]
        good = all(re.match("data:image/(png|jpeg);base64,", url) for url in urls)
        error = "'url' field must be a base64 encoded image."
        return None if good else gives({"error": error}, 400)

    cards = tuple({"id": each["key"], "owned_by": "organization_owner"} for each in listed)
    routes = {"/api/v1/models": gives({"models": listed})}
    return serving(replies(odd_picture), cards=cards, routes=routes)


def llamacpp(
    *, mmproj: bool = True, says_so: bool = True, context: int = 32_768
) -> AbstractContextManager[FaultyServer]:
    """Goes on behind a last message of the assistant, and refuses a prompt that is too long."""

    def blind(body: dict[str, Any]) -> Answer | None:
        return None if mmproj or not pictures(body) else refuses(500, BLIND, type="server_error")

    def thinks(body: dict[str, Any]) -> Answer | None:
        thinking = body.get("chat_template_kwargs", {}).get("enable_thinking", True)
        said = "Assistant response prefill is incompatible with enable_thinking."
        last = body["messages"][-1]["role"]
        return refuses(400, said) if last == "assistant" and thinking else None

    def too_long(body: dict[str, Any]) -> Answer | None:
        said = f"request ({count(body)} tokens) exceeds the available context size ({context} tokens), try increasing it"
        refusal = refuses(400, said, type="exceed_context_size_error")
        return refusal if count(body) > context else None

    props: dict[str, Any] = {"default_generation_settings": {"n_ctx": context}}
    props |= {"modalities": {"vision": mmproj, "audio": False}} if says_so else {}
    cards = ({"id": "qwen2.5-vl-7b-q4.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 9}},)
    return serving(replies(blind, thinks, too_long), cards=cards, routes={"/props": gives(props)})


def openai_alike(owner: str, picture: int = 256) -> AbstractContextManager[FaultyServer]:
    """vLLM, SGLang or any other server that does not say who sees pictures. One that drops them counts 0 for each."""
    counted = replies(counted=lambda body: count(body, picture))
    return serving(counted, cards=({"id": "vlm", "owned_by": owner},))


def refuses_pictures(owner: str) -> AbstractContextManager[FaultyServer]:
    """A text model on vLLM."""
    refusal = refuses(400, "vlm is not a multimodal model")
    answer = replies(lambda body: refusal if pictures(body) else None)
    return serving(answer, cards=({"id": "vlm", "owned_by": owner},))


def put_at(patch: pytest.MonkeyPatch, kind: str, url: str) -> Host:
    """Let a host be at this address; return it."""
    entry = JUDGES[kind]
    assert entry.host
    host = replace(entry.host, url=url)
    patch.setitem(JUDGES, kind, replace(entry, host=host))
    return host


# -- hosts --------------------------------------------------------------------------------------------------------------


def _wants_key(answer: Answer, refused: Answer) -> Answer:
    def checked(handler: Handler, body: Any = None) -> None:
        right = handler.headers.get("Authorization") == f"Bearer {KEY}"
        (answer if right else refused)(handler, body)

    return checked


def _unknown(*names: str) -> Refusal:
    def refusal(body: dict[str, Any]) -> Answer | None:
        found = next((name for name in names if name in body), None)
        return refuses(400, f"Unrecognized request argument supplied: {found}") if found else None

    return refusal


ENGINE_FIELDS = _unknown("skip_special_tokens", "chat_template_kwargs", "continue_final_message")


def locked_server() -> AbstractContextManager[FaultyServer]:
    """A server of one's own that wants a key."""
    wrong = refuses(401, "Invalid API key.")
    card = {"id": "vlm", "owned_by": "somebody"}
    return serving(_wants_key(replies(), wrong), cards=_wants_key(gives({"data": [card]}), wrong))


def openai_host() -> AbstractContextManager[FaultyServer]:
    """Masks the middle of a wrong key and repeats the rest."""

    def fields(body: dict[str, Any]) -> Answer | None:
        if "max_tokens" in body:
            said = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
            return refuses(400, f"Unsupported parameter: {said}", code="unsupported_parameter")
        if body["model"].startswith("gpt-5") and body.get("temperature", 1) != 1:
            return refuses(400, "Unsupported value: 'temperature' does not support 0 here.")
        if body["model"].startswith("gpt-5") and "logprobs" in body:
            return refuses(403, "You are not allowed to request logprobs from this model")
        return None

    said = "Incorrect API key provided: sk-wrong*****6789. You can find it in your account."
    wrong = refuses(401, said, code="invalid_api_key")
    cards = [{"id": name, "owned_by": "system"} for name in ("gpt-4.1", "gpt-5.2", "gpt-5-mini")]
    listed = _wants_key(gives({"data": cards}), wrong)
    return serving(_wants_key(replies(ENGINE_FIELDS, fields), wrong), cards=listed)


def gemini_host() -> AbstractContextManager[FaultyServer]:
    """Refuses a wrong key with 400, in a list."""
    message = "API key not valid. Please pass a valid API key."
    wrong = gives([{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}], 400)
    cards = [{"id": "models/gemini-3-flash", "object": "model", "owned_by": "google"}]
    answer = _wants_key(replies(ENGINE_FIELDS, _unknown("logprobs")), wrong)
    return serving(answer, cards=_wants_key(gives({"data": cards}), wrong))


def openrouter_host(cost: float | None = None) -> AbstractContextManager[FaultyServer]:
    """Everybody may read its list; prices are texts. Wants the text of a message before its pictures."""

    def card(name: str, *modalities: str, prompt: str = "0.0000002") -> dict[str, Any]:
        prices = {"prompt": prompt, "completion": "0.0000008", "image": "0", "request": "0"}
        takes = {"input_modalities": list(modalities), "output_modalities": ["text"]}
        return {"id": name, "architecture": takes, "pricing": prices, "context_length": 262_144}

    def order(body: dict[str, Any]) -> Answer | None:
        kinds = [[part["type"] for part in parts({"messages": [m]})] for m in body["messages"]]
        good = all(each == sorted(each, reverse=True) for each in kinds)
        return None if good else refuses(400, "Provider returned error", metadata={"raw": "text"})

    cards = (
        card("qwen/qwen3-vl-8b-instruct", "text", "image"),
        card("qwen/qwen3-8b", "text"),
        card("openrouter/auto", "text", "image", prompt="-1"),
    )
    more = {} if cost is None else {"cost": cost}
    wrong = refuses(401, "User not found.")
    routes = {"/v1/key": _wants_key(gives({"data": {"label": "sk-or"}}), wrong)}
    return serving(_wants_key(replies(order, more=more), wrong), cards=cards, routes=routes)


def hf_host() -> AbstractContextManager[FaultyServer]:
    """Its list says for each model what it takes, and which providers have it."""

    def card(name: str, *modalities: str) -> dict[str, Any]:
        providers = [{"provider": "novita", "status": "live", "context_length": 131_072}]
        takes = {"input_modalities": list(modalities)}
        return {"id": name, "owned_by": "Qwen", "architecture": takes, "providers": providers}

    cards = (card("Qwen/Qwen3-VL-8B-Instruct", "text", "image"), card("Qwen/Qwen3-8B", "text"))
    wrong = gives({"error": "Invalid username or password."}, 401)
    return serving(_wants_key(replies(ENGINE_FIELDS), wrong), cards=cards)
