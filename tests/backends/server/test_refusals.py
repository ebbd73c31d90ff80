"""What a refusal means, in whatever words and place a server says it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.backends.server.support import (
    GENERAL,
    QUICK,
    ask,
    asked,
    failure_of,
    open_judge,
    opening,
    refused,
)
from tests.support.faulty_server import ANSWER, Answer, Handler, refuses, says, sends, serving
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.backends.server_errors import GARBAGE
from vrthinker_core.errors import BackendRefused, ContextFull, ServerUnavailable, TooManyPictures

JSON = "application/json"


TOO_LONG: dict[str, Any] = {
    "llama.cpp": "the request exceeds the available context size (4096 tokens), try increasing it",
    "Ollama": "the input length exceeds the context length",
    "Anthropic": "prompt is too long: 208310 tokens > 200000 maximum",
    "Gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "SGLang": "The input (9000 tokens) is longer than the model's context length (4096 tokens).",
    "its scheduler": "Input length (9000 tokens) exceeds the maximum allowed length (4096 tokens).",
    "type": {"error": {"code": 400, "message": "too much", "type": "exceed_context_size_error"}},
    "code": {"error": {"message": "Your input.", "code": "context_length_exceeded"}},
}


@pytest.mark.parametrize("said", TOO_LONG.values(), ids=TOO_LONG)
def test_a_context_too_long_is_known_in_whatever_words_and_is_asked_once(said: Any) -> None:
    body = said if isinstance(said, dict) else {"error": {"message": said, "code": 400}}
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
def test_too_many_pictures_are_told_with_the_limit_that_the_server_names(
    said: str, limit: str
) -> None:
    error, requests = failure_of(refuses(400, said))
    assert (type(error), requests) == (TooManyPictures, 1)
    assert str(error).startswith(f"The server takes {limit} in one prompt.")


def test_what_a_service_passes_on_is_read_and_quoted_in_the_place_of_its_own_words() -> None:
    def passed_on(raw: object) -> Exception:
        error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}
        return failure_of(lambda handler, _: handler.send_json(400, {"error": error}))[0]

    assert type(passed_on("At most 4 image(s) may be provided in one prompt.")) is TooManyPictures
    said = "The server refuses the request. It says: I do not like this."
    assert str(passed_on("I do not like this.")) == said
    for nothing in ("", "<html>Welcome</html>", None, {"more": 1}):
        assert "It says: Provider returned error." in str(passed_on(nothing))
    assert type(passed_on({"error": "Too many images"})) is TooManyPictures


@pytest.mark.parametrize(
    "body", [b"", b"<!DOCTYPE html><html>Just a moment...</html>", b"\n<html>no</html>"]
)
def test_an_answer_without_words_is_told_as_nothing(body: bytes) -> None:
    assert str(refused(405, body)) == "The server refuses the request. It says: nothing."
    assert str(refused(403, body)).startswith("The server forbids the request. It says: nothing. ")
    assert str(refused(404, body)) == GARBAGE


@pytest.mark.parametrize("variable", ["VRTHINKER_API_KEY", "OPENAI_API_KEY"])
def test_a_refused_key_is_named_by_the_variable_that_holds_it(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VRTHINKER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv(variable, "sk-one")
    assert (
        str(failure_of(refuses(401))[0])
        == f"The server does not accept the key in {variable}: put another one into it. It says: no."
    )
    assert str(failure_of(refuses(403))[0]).endswith(f"The key is the one in {variable}.")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "Your organisation must be verified to use the model"),
        (403, "Country, region, or territory not supported"),
        (418, "<400> Range of input"),
        (404, "The requested model does not support image input"),
        (404, "No endpoints found that support image input"),
    ],
)
def test_a_server_that_forbids_or_cannot_is_quoted(status: int, said: str) -> None:
    error, requests = failure_of(refuses(status, said))
    assert (type(error), requests) == (BackendRefused, 1)
    assert f"It says: {said}." in str(error)
    assert "no model" not in str(error)


@pytest.mark.parametrize(
    "again", ["0", "-3", "nan", "inf", "soon", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
def test_a_retry_after_that_asks_for_no_time_gets_the_usual_back_off(again: str) -> None:
    with serving(refuses(429, headers={"Retry-After": again}), says()) as server:
        slow = replace(QUICK, first_wait=0.3, longest_wait=0.3)
        conversation = open_judge(server, patience=slow).open_conversation()
        started = time.monotonic()
        assert ask(conversation, opening())[1].text == ANSWER
        assert time.monotonic() - started >= 0.3
        conversation.close()


BLIND = "image input is not supported - hint: you may need to provide the mmproj"
FORMS: dict[str, Callable[[str], Any]] = {
    "llama.cpp": lambda said: {"error": {"code": 500, "message": said, "type": "server_error"}},
    "vLLM": lambda said: {"object": "error", "message": said, "param": None, "code": 500},
    "Ollama": lambda said: {"error": said},
    "FastAPI": lambda said: {"detail": said},
    "a gateway": lambda said: {"message": said, "request_id": "a7"},
    "Gemini": lambda said: [{"error": {"code": 500, "message": said, "status": "INTERNAL"}}],
    "plain text": lambda said: said,
}


def fails(
    said: str, status: int = 500, form: str = "llama.cpp", headers: dict[str, str] | None = None
) -> Answer:
    body = FORMS[form](said)
    data = body if isinstance(body, str) else json.dumps(body)
    return lambda handler, _: handler.send_bytes(
        status, data.encode(), "text/plain" if body is data else JSON, headers
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_failure_is_quoted_in_whatever_form_and_at_once_if_it_is_the_requests_fault(
    form: str,
) -> None:
    error, requests = failure_of(fails(BLIND, form=form))
    assert (type(error), requests) == (BackendRefused, 1)
    assert f"It says: {BLIND}." in str(error)
    error, requests = failure_of(
        fails("first", 529), fails("second", 502, form), fails(BLIND, 503, form)
    )
    assert (type(error), requests) == (ServerUnavailable, QUICK.tries)
    assert f"It says: {BLIND}." in str(error)


UNPARSED = f"Failed to parse messages: Unsupported content: image_url; messages = {'x' * 250} later"
ENGINE = "EngineCore encountered an issue. See stack trace (above) for the root cause."
SORRY = "The server had an error while processing your request. Sorry about that!"


@pytest.mark.parametrize(
    ("status", "said", "requests", "kind"),
    [
        (500, "Context size has been exceeded.", 1, ContextFull),
        (500, "Too many images in request. Max is 50.", 1, TooManyPictures),
        (500, "input is too large to process. increase the physical batch size", 1, BackendRefused),
        (500, UNPARSED, 1, BackendRefused),
        (501, "This server has no such route.", 1, BackendRefused),
        (500, "this model is missing data required for image input", 2, ServerUnavailable),
        (500, ENGINE, 2, ServerUnavailable),
        (500, SORRY, 3, ServerUnavailable),
        (500, "Loading model", 3, ServerUnavailable),
        (504, "this model is not supported", 3, ServerUnavailable),
        (520, "Web server is returning an unknown error", 3, ServerUnavailable),
    ],
)
def test_how_often_a_failure_is_asked_again_is_read_from_what_it_says(
    status: int, said: str, requests: int, kind: type
) -> None:
    error, asked = failure_of(fails(said, status))
    assert (type(error), asked) == (kind, requests)
    assert f"It says: {said[:150].strip('. ')}" in str(error)


@pytest.mark.parametrize(
    "answers",
    [
        [fails("CUDA error")],
        [fails("CUDA error"), fails("out of memory")],
        [fails("not supported", headers={"Retry-After": "0.01"}), fails("Internal Server Error")],
        [fails("", form="plain text"), fails("Model is overloaded", form="Ollama")],
    ],
    ids=["once", "two causes", "asked to come back", "no cause"],
)
def test_a_failure_that_passes_costs_nothing(answers: list[Answer]) -> None:
    with serving(*answers, says()) as server:
        assert asked(server)[1].text == ANSWER


@pytest.mark.parametrize("title", ["502 Bad Gateway", "host.example | 524: A timeout occurred"])
def test_the_title_of_a_page_is_what_it_says(title: str) -> None:
    page = f"<!DOCTYPE html>\n<html><head><title>\n{title}</title></head><body>not supported</body></html>".encode()
    error, requests = failure_of(lambda handler, _: handler.send_bytes(502, page, "text/html"))
    assert (type(error), requests) == (ServerUnavailable, QUICK.tries)
    assert f"It says: {title}." in str(error)
    assert "It says" not in str(refused(500, b"<html>no</html>"))


@pytest.mark.parametrize("code", [500, "500", None, 1301])
def test_a_failure_inside_a_stream_is_told_as_one_before_it(code: int | str | None) -> None:
    def event(said: str) -> Answer:
        error = {"error": {"message": said, "code": code}}
        return sends(b"data: " + json.dumps(error).encode() + b"\n\n")

    for said, kind, tries in (
        ("The context size is exceeded", ContextFull, 1),
        ("CUDA error", ServerUnavailable, 2),
        ("overloaded", ServerUnavailable, QUICK.tries),
    ):
        error, requests = failure_of(event(said))
        assert (type(error), requests) == (kind, tries)
        assert f"It says: {said}." in str(error)


def test_what_is_quoted_is_one_short_line_that_no_terminal_obeys() -> None:
    error, _ = failure_of(
        fails("\x1b[31mno\u202e pictures\r\n\x00\ud800here. " + "and so on " * 5000)
    )
    assert "[31mno pictures here. and so on" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 500


def redirects(status: int, target: str, path: str) -> Callable[..., None]:
    """Redirects what is asked of `path` to the same file of `target`; all else is answered."""

    def answer(handler: Handler, body: dict[str, Any] | None = None) -> None:
        if handler.path.startswith(path):
            handler.send_bytes(
                status, b"", "text/plain", {"Location": target + handler.path.removeprefix(path)}
            )
        elif body is None:
            handler.send_json(200, {"data": GENERAL})
        else:
            says()(handler, body)

    return answer


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_server_is_followed_once(status: int) -> None:
    moved = redirects(status, "/v1", "/old")
    with serving(moved, cards=moved) as server:
        backend = ServerBackend.open(parse_judge(f"server:{server.address}/old"), patience=QUICK)
        conversation = backend.open_conversation()
        assert ask(conversation, opening())[1].text == ANSWER
        conversation.close()
        assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_costs_a_request_its_content_names_the_address_to_use(status: int) -> None:
    with serving(says(), cards=GENERAL) as other:
        moved = redirects(status, other.url, "/v1")
        with (
            serving(cards=moved) as server,
            pytest.raises(BackendRefused, match=f"redirects to {other.url},.*Use that address"),
        ):
            open_judge(server)
        error, requests = failure_of(moved)  # its list is where it was
    assert f"redirects to {other.url}," in str(error)
    assert (requests, other.bodies) == (1, [])


def test_a_redirect_to_a_slash_at_the_end_is_told_as_one_that_no_other_address_avoids() -> None:
    error = refused(301, b"", Location="/v1/chat/completions/")
    assert type(error) is BackendRefused
    assert "redirects to its path /v1/chat/completions/," in str(error)
    assert "Use that address" not in str(error)


def test_the_address_to_use_instead_ends_before_the_path_of_a_request() -> None:
    """Whatever slash is behind it."""
    with serving(says(), cards=GENERAL) as other:
        error = refused(301, b"", Location=f"{other.url}/chat/completions/")
    assert f"redirects to {other.url}, where" in str(error)
