"""What a refusal means, in whatever words and place a server says it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.backends.server.support import GENERAL, QUICK, ask, failure_of, open_judge, opening
from tests.support.faulty_server import ANSWER, Handler, refuses, says, serving
from vrthinker_core.backends.server.failures import GARBAGE
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.errors import BackendRefused, ContextFull, JudgeError, TooManyPictures


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 400, "message": "the request exceeds the available context size (4096 tokens), try increasing it"}},
        {"error": {"code": 400, "message": "the request is too much for it", "type": "exceed_context_size_error"}},
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 200000 maximum"}},
        {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}},
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 `inputs` tokens"},
        {"error": {"message": "Your input exceeds the limit.", "param": "messages", "code": "context_length_exceeded"}},
        {"error": {"message": "The input (9000 tokens) is longer than the model's context length (4096 tokens)."}},
        {"error": {"message": "Input length (9000 tokens) exceeds the maximum allowed length (4096 tokens)."}},
    ],
    ids=["llama.cpp", "type", "Anthropic", "Gemini", "TGI", "code", "SGLang", "SGLang, its scheduler"],
)
def test_a_context_too_long_is_known_in_whatever_words_and_is_asked_once(body: Any) -> None:
    error, requests = failure_of(lambda handler, _: handler.send_json(400, body))
    assert (type(error), requests) == (ContextFull, 1)


@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("At most 4 image(s) may be provided in one prompt.", "at most 4 pictures"),
        ("At most 1 image(s) may be provided in one prompt.", "at most 1 picture"),
        ("At most 2 video(s) may be provided in one prompt.", "at most 2 videos"),
        ("Too many images in request. Max is 50.", "fewer pictures"),
        ("Too many videos", "fewer videos"),
        ("128 images in the request exceed what the model takes", "fewer pictures"),
    ],
)
def test_too_many_pictures_are_told_with_the_limit_that_the_server_names(said: str, limit: str) -> None:
    error, requests = failure_of(refuses(400, said))
    assert (type(error), requests) == (TooManyPictures, 1)
    assert str(error).startswith(f"The server takes {limit} in one prompt.")


def test_what_a_service_passes_on_is_read_and_quoted_in_the_place_of_its_own_words() -> None:
    def passed_on(raw: object) -> Exception:
        body = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "x"}}}
        return failure_of(lambda handler, _: handler.send_json(400, body))[0]

    assert type(passed_on("At most 4 image(s) may be provided in one prompt.")) is TooManyPictures
    assert str(passed_on("I do not like this.")) == "The server refuses the request. It says: I do not like this."
    for nothing in ("", "<html>Welcome</html>", None, {"more": 1}):
        assert "It says: Provider returned error." in str(passed_on(nothing))
    assert type(passed_on({"error": "Too many images"})) is TooManyPictures


@pytest.mark.parametrize("body", [b"", b"<!DOCTYPE html><html>Just a moment...</html>", b"\n<html>no</html>"])
def test_an_answer_without_words_is_told_as_nothing(body: bytes) -> None:
    def error(status: int) -> JudgeError:
        found, _ = failure_of(lambda handler, _: handler.send_bytes(status, body, "text/html"))
        assert isinstance(found, BackendRefused)
        return found

    assert str(error(405)) == "The server refuses the request. It says: nothing."
    assert str(error(403)).startswith("The server forbids the request. It says: nothing. ")
    assert str(error(404)) == GARBAGE


def test_words_that_begin_with_a_bracket_are_no_page() -> None:
    assert str(failure_of(refuses(418, "<400> Range of input"))[0]).endswith("It says: <400> Range of input.")


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


def test_a_redirect_to_a_slash_at_the_end_is_told_as_one_that_no_other_address_avoids() -> None:
    error, _ = failure_of(lambda handler, _: handler.send_bytes(301, b"", "text/plain", {"Location": "/v1/chat/completions/"}))
    assert type(error) is BackendRefused
    assert "redirects to its path /v1/chat/completions/," in str(error)
    assert "Use that address" not in str(error)


def test_the_address_to_use_instead_ends_before_the_path_of_a_request_whatever_slash_is_behind_it() -> None:
    with serving(says(), cards=GENERAL) as other:
        target = f"{other.url}/chat/completions/"
        error, _ = failure_of(lambda handler, _: handler.send_bytes(301, b"", "text/plain", {"Location": target}))
    assert f"redirects to {other.url}, where" in str(error)
