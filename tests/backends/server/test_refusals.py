"""What a refusal means, in whatever words and place a server says it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.backends.server.support import GENERAL, QUICK, ask, failure_of, open_judge, opening
from tests.support.faulty_server import ANSWER, Handler, refuses, says, serving
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.errors import BackendRefused, ContextFull


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 400, "message": "the request exceeds the available context size (4096 tokens), try increasing it"}},
        {"error": {"code": 400, "message": "the request is too much for it", "type": "exceed_context_size_error"}},
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 200000 maximum"}},
        {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}},
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 `inputs` tokens"},
        {"error": {"message": "Your input exceeds the limit.", "param": "messages", "code": "context_length_exceeded"}},
    ],
    ids=["llama.cpp", "type", "Anthropic", "Gemini", "TGI", "code"],
)
def test_a_context_too_long_is_known_in_whatever_words_and_is_asked_once(body: Any) -> None:
    error, requests = failure_of(lambda handler, _: handler.send_json(400, body))
    assert (type(error), requests) == (ContextFull, 1)


@pytest.mark.parametrize("variable", ["VRTHINKER_API_KEY", "OPENAI_API_KEY"])
def test_a_refused_key_is_named_by_the_variable_that_holds_it(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VRTHINKER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv(variable, "sk-one")
    assert str(failure_of(refuses(401))[0]) == f"The server does not accept the key in {variable}."
    assert str(failure_of(refuses(403))[0]).endswith(f"The key is the one in {variable}.")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "Your organisation must be verified to use the model"),
        (403, "Country, region, or territory not supported"),
        (404, "The requested model does not support image input"),
        (404, "No endpoints found that support image input"),
    ],
)
def test_a_server_that_forbids_or_cannot_is_quoted(status: int, said: str) -> None:
    error, requests = failure_of(refuses(status, said))
    assert (type(error), requests) == (BackendRefused, 1)
    assert f"It says: {said}." in str(error)
    assert "no model" not in str(error)


def test_a_model_that_the_list_no_longer_has_is_not_there() -> None:
    with serving(refuses(404, "The model `general` does not exist."), cards=GENERAL) as server:
        conversation = open_judge(server).open_conversation()
        server.cards = [{"id": "other"}]
        with pytest.raises(BackendRefused, match=r"no model 'general'.*It has other"):
            ask(conversation, opening())
        conversation.close()


@pytest.mark.parametrize("asked", ["0", "-3", "nan", "inf", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_retry_after_that_asks_for_no_time_gets_the_usual_back_off(asked: str) -> None:
    with serving(refuses(429, headers={"Retry-After": asked}), says()) as server:
        conversation = open_judge(server, patience=replace(QUICK, first_wait=0.3, longest_wait=0.3)).open_conversation()
        started = time.monotonic()
        assert ask(conversation, opening())[1].text == ANSWER
        assert time.monotonic() - started >= 0.3
        conversation.close()


def test_a_date_to_try_again_is_read_by_the_clock_of_the_server() -> None:
    dates = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:01 GMT"}

    def busy(handler: Handler, _: dict[str, Any]) -> None:
        handler.send_response_only(429)  # without a date of its own
        for name, value in {"Content-Length": "0", **dates}.items():
            handler.send_header(name, value)
        handler.end_headers()

    with serving(busy, says()) as server:
        conversation = open_judge(server).open_conversation()
        started = time.monotonic()
        assert ask(conversation, opening())[1].text == ANSWER
        assert time.monotonic() - started >= 1
        conversation.close()


def redirects(status: int, target: str, path: str) -> Callable[..., None]:
    """Redirects what is asked of `path` to the same file of `target`; all else is answered."""

    def answer(handler: Handler, body: dict[str, Any] | None = None) -> None:
        if handler.path.startswith(path):
            handler.send_bytes(status, b"", "text/plain", {"Location": target + handler.path.removeprefix(path)})
        elif body is None:
            handler.send_json(200, {"data": GENERAL})
        else:
            says()(handler, body)

    return answer


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_server_is_followed_once(status: int) -> None:
    moved = redirects(status, "/v1", "/old")
    with serving(moved, cards=moved) as server:
        backend = ServerBackend.open(f"{server.address}/old", patience=QUICK)
        conversation = backend.open_conversation()
        assert ask(conversation, opening())[1].text == ANSWER
        conversation.close()
        assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_costs_a_request_its_content_names_the_address_to_use(status: int) -> None:
    with serving(says(), cards=GENERAL) as other:
        moved = redirects(status, other.url, "/v1")
        with serving(cards=moved) as server, pytest.raises(BackendRefused, match=f"redirects to {other.url},.*Use that address"):
            open_judge(server)
        error, requests = failure_of(moved)  # its list is where it was
    assert f"redirects to {other.url}," in str(error)
    assert (requests, other.bodies) == (1, [])
