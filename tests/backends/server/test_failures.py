"""Each failure of a server has a named end that says what to do, however the server tells it."""

from __future__ import annotations

import errno
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import openai
import pytest

from tests.backends.server.support import (
    GENERAL,
    QUICK,
    VLLM,
    ask,
    asked,
    failure_of,
    open_judge,
    opening,
    refused,
    talking,
)
from tests.support.faulty_server import (
    ANSWER,
    Answer,
    Handler,
    delta,
    events,
    refuses,
    says,
    says_then,
    sends,
    serving,
)
from tests.support.waiting import until
from vrthinker_core import Settings, VideoPair, judge
from vrthinker_core.backends import server_errors as failures
from vrthinker_core.backends.judge_name import JudgeName, parse_judge
from vrthinker_core.backends.served_model import make_client
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.backends.server_errors import Secret
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    ContextFull,
    JudgeError,
    RequestRefused,
    ServerUnavailable,
)
from vrthinker_core.traces import load
from vrthinker_core.types.events import TextArrived
from vrthinker_core.types.messages import Retrying, Sampling

KEY = "sk-test-3f9a71c2"
PATIENT = replace(QUICK, silence=60)
LONG = "This model's maximum context length is 4096 tokens. However, your prompt contains 9000 input tokens."
MANY = "At most 64 image(s) may be provided in one prompt. Set `--limit-mm-per-prompt` to increase this limit."
ADVICE = "<recommend answer><answer>TA=1</answer></recommend answer>"
hang, drip = Handler.wait_until_closed, Handler.keep_alive


def drip_a_list(handler: Handler) -> None:
    handler.begin_stream()
    drip(handler)


def go_on_and_on(handler: Handler) -> None:
    while True:
        handler.send_event(delta("and on " * 1000))


def too_long_after_all(handler: Handler) -> None:
    message = "The prompt exceeds the maximum model length."
    handler.send_event({"error": {"message": message, "code": 400}})


def nothing(_: Handler) -> None:
    """Send no byte of an answer."""


BLIND = "image input is not supported - hint: you may need to provide the mmproj"
FORMS: dict[str, Callable[[str], Any]] = {
    "llama.cpp": lambda said: {"error": {"code": 500, "message": said, "type": "server_error"}},
    "vLLM": lambda said: {"object": "error", "message": said, "param": None, "code": 500},
    "Ollama": lambda said: {"error": said},
    "FastAPI": lambda said: {"detail": said},
    "Gemini": lambda said: [{"error": {"code": 500, "message": said, "status": "INTERNAL"}}],
    "plain text": lambda said: said,
}


def fails(
    said: str, status: int = 500, form: str = "llama.cpp", headers: dict[str, str] | None = None
) -> Answer:
    body = FORMS[form](said)
    data = body if isinstance(body, str) else json.dumps(body)
    kind = "text/plain" if body is data else "application/json"
    return lambda handler, _: handler.send_bytes(status, data.encode(), kind, headers)


def error_event(message: str, **more: Any) -> Answer:
    """A refusal as LM Studio sends it: inside a stream, and without a status."""
    return sends(b"event: error\n" + events({"error": {"message": message, **more}}))


TOO_LONG = (
    "the request exceeds the available context size (4096 tokens), try increasing it",
    "prompt is too long: 208310 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Input length (9000 tokens) exceeds the maximum allowed length (4096 tokens).",
)
UNPARSED = f"Failed to parse messages: Unsupported content: image_url; messages = {'x' * 250} later"
ENGINE = "EngineCore encountered an issue. See stack trace (above) for the root cause."
SORRY = "The server had an error while processing your request. Sorry about that!"
ODD = {"detail": [{"loc": ["body", "messages"], "msg": "Too odd"}]}

ENDS: dict[str, tuple[Answer, type[JudgeError], str]] = {
    "a context too long": (refuses(400, LONG), ContextFull, "longer context"),
    "too many pictures": (refuses(400, MANY), RequestRefused, "It says: At most 64 image.*--limit-mm-per-prompt"),
    "a model that is gone": (refuses(404, "The model `x` does not exist."), BackendRefused, "It says: The model `x` does not"),
    "a wrong path": (refuses(404, "Not Found"), BackendRefused, "/v1"),
    "a body too large": (refuses(413, "Payload Too Large"), RequestRefused, "memory window"),
    "no quota": (refuses(429, "You exceeded your current quota", code="insufficient_quota"), BackendRefused, "quota"),
    "a limit of a quota a minute": (refuses(429, "See aka.ms/oai/quotaincrease"), ServerUnavailable, "too many requests.*asked 3 times"),
    "a server error": (refuses(503, "oh"), ServerUnavailable, "503.*asked 3 times"),
    "silence": (says_then("", hang), ServerUnavailable, "silent"),
    "a web page": (sends(b"<html><body>Welcome</body></html>", "text/html"), BackendFailed, "OpenAI-compatible"),
    "garbage for a chunk": (sends(b"data: {oops\n\n"), BackendFailed, "OpenAI-compatible"),
    "chunks of another kind": (sends(b'data: {"choices": [7]}\n\n'), BackendFailed, "OpenAI-compatible"),
    "an empty stream": (sends(b""), BackendFailed, "OpenAI-compatible"),
    "a cut after some tokens": (says_then("<Think>Well", nothing), BackendFailed, "broke off"),
    "silence after some tokens": (says_then("<Think>Well", hang), BackendFailed, "silent"),
    "a drip after some tokens": (says_then("<Think>Well", drip), BackendFailed, "silent"),
    "a refusal after some tokens": (says_then("<Think>Well", too_long_after_all), ContextFull, "maximum model length"),
    "a reply without end": (says_then("<Think>Well", go_on_and_on), BackendRefused, "does not end"),
    "a tool parser": (says("", delta(tool_calls=[{"index": 0, "function": {"name": "f"}}])), BackendRefused, "--tool-call-parser"),
    "a dropped tag": (says('{"name": "select_frames"}</tool_call>'), BackendRefused, "--tool-call-parser"),
    "a dropped tag behind advice": (says(f"{ADVICE}{{}}</tool_call>"), BackendRefused, "--tool-call-parser"),
    "a content filter": (says("Well", finish="content_filter"), BackendRefused, "content filter"),
    "a model's own filter": (says("", finish="content_filter: PROHIBITED_CONTENT"), BackendRefused, "It says: content_filter: PROH"),
    "a filter's name": (says("Well", finish="SAFETY"), BackendRefused, "content filter.*It says: SAFETY"),
    "an unknown end": (says("", finish="recitation"), BackendRefused, "It says: recitation"),
    "a refusal to answer": (says("", delta(refusal="I cannot look at this.")), BackendRefused, "It says: I cannot look at this"),
    **{said: (refuses(400, said), ContextFull, "It says: ") for said in TOO_LONG},
    "its type": (refuses(400, type="exceed_context_size_error"), ContextFull, "It says: no"),
    "its code": (refuses(400, code="context_length_exceeded"), ContextFull, "It says: no"),
    "a range": (refuses(418, "<400> Range of input"), BackendRefused, "It says: <400> Range of input."),
    "no sentence": (lambda handler, _: handler.send_json(418, ODD), BackendRefused, "Too odd"),
    "an error in place of a stream": (
        lambda handler, _: handler.send_json(200, {"error": {"message": "no pictures", "code": 418}}),
        BackendRefused,
        "It says: no pictures.",
    ),
    "a 500 for a context": (fails("Context size has been exceeded."), ContextFull, "It says: Context size"),
    "a 500 for pictures": (fails("Too many images in request. Max is 50."), RequestRefused, "It says: Too many images"),
    "a 500 for a batch size": (fails("input is too large to process."), RequestRefused, "It says: input is"),
    "a 500 for a content": (fails(UNPARSED), RequestRefused, "It says: Failed to parse"),
    "a 501": (fails("This server has no such route.", 501), BackendRefused, "It says: This server has no such"),
    "the same cause twice": (fails(ENGINE), ServerUnavailable, "It says: EngineCore.*asked 2 times"),
    "a 500 without a cause": (fails(SORRY), ServerUnavailable, "Sorry.*asked 3 times"),
    "a 500 for now": (fails("Loading model"), ServerUnavailable, "Loading.*asked 3 times"),
    "a 504": (fails("this model is not supported", 504), ServerUnavailable, "this model is.*asked 3 times"),
    "streamed: a context": (error_event("loaded with context length of only 4096"), ContextFull, "4096"),
    "streamed: its code": (error_event("Too much.", code="context_length_exceeded"), ContextFull, "Too much"),
    "streamed: pictures": (error_event("At most 4 image(s) in a prompt."), RequestRefused, "It says: At most 4 image"),
    "streamed: no quota": (error_event("No.", code="insufficient_quota"), BackendRefused, "no quota left"),
    "streamed: a rate": (error_event("Rate limit: too many tokens", code="rate_limit"), ServerUnavailable, "3 times"),
    "streamed: a 503": (error_event("The context window is broken", code="503"), ServerUnavailable, "3 times"),
    "streamed: a cause": (error_event("CUDA error", code=500), ServerUnavailable, "It says: CUDA error.*2 times"),
    "streamed: another code": (error_event("CUDA error", code=1301), ServerUnavailable, "CUDA error.*2 times"),
    "anything else": (refuses(418, "I do not like\nthis at all."), BackendRefused, "It says: I do not like this at all"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_each_failure_is_a_sentence_that_says_what_to_do(name: str) -> None:
    answer, kind, words = ENDS[name]
    error, requests = failure_of(answer)
    assert type(error) is kind
    assert re.search(words, str(error)), str(error)
    assert "\n" not in str(error)
    assert "127.0.0.1" not in str(error)
    assert "no model" not in str(error)
    plainer = kind is RequestRefused and not re.match("a body|a 500", name)
    tries = 2 if plainer or "2 times" in words else 3 if kind is ServerUnavailable else 1
    assert requests == tries


def test_what_passes_is_tried_again_and_counted_once() -> None:
    answers = (refuses(503), refuses(429), says_then("", nothing), says())
    with talking(*answers, patience=replace(QUICK, silence=2)) as (_, conversation):
        with pytest.raises(BackendFailed):  # by an empty stream, which no other try mends
            ask(conversation)
        completion = ask(conversation)
    assert completion.text == ANSWER
    assert completion.new_tokens == len(completion.pieces)
    assert completion.prompt_tokens == 100


def test_each_further_try_is_told() -> None:
    answers = refuses(429), refuses(502), says()
    with talking(*answers) as (_, conversation):
        *items, completion = conversation.stream(opening(), Sampling())
    busy, failing, *pieces = items
    assert (busy, failing) == (Retrying(2, 3, True), Retrying(3, 3, False))
    assert list(completion.split()) == pieces


def test_retry_after_is_honoured() -> None:
    started = time.monotonic()
    asked(refuses(429, headers={"Retry-After": "0.6"}), says())
    assert time.monotonic() - started >= 0.6
    error, requests = failure_of(refuses(429, headers={"Retry-After": "3600"}))
    assert (type(error), requests) == (ServerUnavailable, 1)


@pytest.mark.parametrize("again", ["-3", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_retry_after_that_asks_for_no_time_gets_the_usual_back_off(again: str) -> None:
    answers = refuses(429, headers={"Retry-After": again}), says()
    slow = replace(QUICK, first_wait=0.3, longest_wait=0.3)
    with talking(*answers, patience=slow) as (_, conversation):
        started = time.monotonic()
        assert ask(conversation).text == ANSWER
        assert time.monotonic() - started >= 0.3


def test_the_deadline_is_kept_whatever_arrives_and_the_tries_are_counted() -> None:
    quick = replace(PATIENT, deadline=0.5)
    for answer in (says_then("", drip), says_then("", hang)):
        # Asked once, so no number is told
        alone = pytest.raises(ServerUnavailable, match=r"silent.*compare again\.$")
        with talking(answer, patience=quick) as (_, conversation), alone:
            ask(conversation)
    with serving(cards=drip_a_list) as server, pytest.raises(ServerUnavailable, match="silent"):
        open_judge(server, patience=quick)


def test_too_many_open_files_are_not_blamed_on_the_server() -> None:
    error = openai.APIConnectionError(request=SimpleNamespace())  # type: ignore[arg-type]
    error.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert "Too many files are open" in str(failures.failure_of(error, failures.Secret("", "")))


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with serving() as server:
        backend = open_judge(server)
    conversation = backend.open_conversation()
    with pytest.raises(ServerUnavailable, match="cannot be reached"):
        ask(conversation)
    conversation.close()
    with pytest.raises(ServerUnavailable, match="cannot be reached"):
        open_judge(server)


@pytest.mark.parametrize(
    ("cards", "model", "words"),
    [
        (({"id": "a"}, {"id": "b"}), "", "It has a, b"),
        ((), "", "lists no model"),
        (VLLM, "other", "no model 'other'.*It has qunwang13/vrthinker"),
        (401, "m", "VRTHINKER_API_KEY"),
        (404, "", "OpenAI-compatible"),
        (b"<html>Welcome</html>", "m", "OpenAI-compatible"),
        (b'{"data": [3]}', "m", "OpenAI-compatible"),
        (b"[" * 100_000, "m", "OpenAI-compatible"),
    ],
)
def test_a_model_that_cannot_be_opened_is_a_sentence(cards: Any, model: str, words: str) -> None:
    with serving(cards=cards) as server, pytest.raises(JudgeError, match=words):
        open_judge(server, model)


def test_a_model_that_an_incomplete_list_lacks_is_tried() -> None:
    for cards in (404, 500, 501, (), GENERAL):
        with serving(cards=cards) as server:
            assert open_judge(server, "hidden").name == "hidden"


def test_the_words_that_a_service_passes_on_replace_its_own() -> None:
    def passed_on(raw: object) -> JudgeError:
        return failure_of(refuses(400, "Provider returned error", metadata={"raw": raw}))[0]

    said = "The server refuses the request. It says: I do not like this."
    assert str(passed_on("I do not like this.")) == said
    for nothing in ("", "<html>Welcome</html>", {"more": 1}):
        assert "It says: Provider returned error." in str(passed_on(nothing))
    assert type(passed_on({"error": "Too many images"})) is RequestRefused


@pytest.mark.parametrize("body", [b"", b"\n<!DOCTYPE html><html>Just a moment...</html>"])
def test_an_answer_without_words_is_told_as_nothing(body: bytes) -> None:
    assert str(refused(405, body)) == "The server refuses the request. It says: nothing."
    assert str(refused(403, body)).startswith("The server forbids the request. It says: nothing. ")
    assert str(refused(404, body)) == failures.GARBAGE


@pytest.mark.parametrize("variable", ["VRTHINKER_API_KEY", "OPENAI_API_KEY"])
def test_a_refused_key_is_named_by_the_variable_that_holds_it(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "put it into VRTHINKER_API_KEY" in str(failure_of(refuses(401))[0])
    monkeypatch.setenv(variable, "sk-one")
    told = f"does not accept the key in {variable}. It says: no."
    assert str(failure_of(refuses(401))[0]).endswith(told)
    assert str(failure_of(refuses(403))[0]).endswith(f"The key is the one in {variable}.")


@pytest.mark.parametrize("form", FORMS)
def test_a_failure_is_quoted_in_whatever_form_and_once_if_it_is_the_requests(form: str) -> None:
    error, requests = failure_of(fails(BLIND, form=form))
    assert (type(error), requests) == (RequestRefused, 1)
    assert f"It says: {BLIND}." in str(error)
    answers = fails("first", 529), fails("second", 502, form), fails(BLIND, 503, form)
    error, requests = failure_of(*answers)
    assert (type(error), requests) == (ServerUnavailable, QUICK.tries)
    assert f"It says: {BLIND}." in str(error)


@pytest.mark.parametrize(
    "answers",
    [
        [fails("CUDA error"), fails("out of memory")],
        [fails("not supported", headers={"Retry-After": "0.01"}), fails("Internal Server Error")],
        [fails("", form="plain text"), fails("Model is overloaded", form="Ollama")],
    ],
    ids=["two causes", "asked to come back", "no cause"],
)
def test_a_failure_that_passes_costs_nothing(answers: list[Answer]) -> None:
    assert asked(*answers, says())[0].text == ANSWER


def test_the_title_of_a_page_is_what_it_says() -> None:
    title = "host.example | 524: A timeout occurred"
    page = f"<!DOCTYPE html>\n<html><head><title>\n{title}</title></head><body>not supported</body></html>"
    error = refused(502, page.encode())
    assert type(error) is ServerUnavailable
    assert f"It says: {title}. " in str(error)
    assert f"asked {QUICK.tries} times" in str(error)
    assert "It says" not in str(refused(500, b"<html>no</html>"))


def test_a_quotation_is_one_short_line_that_no_terminal_obeys() -> None:
    hostile = "\x1b[31mno\u202e pictures\r\n\x00\ud800here. " + "and so on " * 5000
    error, _ = failure_of(fails(hostile))
    assert "[31mno pictures here. and so on" in str(error)
    assert str(error).isprintable()
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"message": "overloaded"}\n\n',
        events({"object": "error", "message": "overloaded", "type": "x", "code": 503}),
        events({"error": "overloaded"}),
    ],
    ids=["an error event", "an error object", "a bare word"],
)
def test_an_error_in_a_stream_is_told_in_the_words_of_the_server(event: bytes) -> None:
    for before, kind, tries in (
        (b"", ServerUnavailable, QUICK.tries),
        (events(delta("<Think>Well")), BackendFailed, 1),
    ):
        error, requests = failure_of(sends(before + event))
        assert (type(error), requests) == (kind, tries)
        assert "It says: overloaded." in str(error)


# -- redirects -----------------------------------------------------------------------------------------------------------


def redirects(status: int, target: str, path: str) -> Callable[..., None]:
    """Redirects what is asked of `path` to the same file of `target`; all else is answered."""

    def answer(handler: Handler, body: dict[str, Any] | None = None) -> None:
        if handler.path.startswith(path):
            where = {"Location": target + handler.path.removeprefix(path)}
            handler.send_bytes(status, b"", "text/plain", where)
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
        with closing(backend.open_conversation()) as conversation:
            assert ask(conversation).text == ANSWER
        assert len(server.bodies) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_frame_follows_a_redirect_which_names_the_address_to_use(status: int) -> None:
    with serving(says(), cards=GENERAL) as other:
        moved = redirects(status, other.url, "/v1")
        with (
            serving(cards=moved) as server,
            pytest.raises(BackendRefused, match=f"redirects to {other.url},.*Use that address"),
        ):
            open_judge(server)
        error, requests = failure_of(moved)  # its list is where it was
        slash = refused(status, b"", Location=f"{other.url}/chat/completions/")
    assert f"redirects to {other.url}," in str(error)
    assert (requests, other.bodies) == (1, [])
    assert f"redirects to {other.url}, where" in str(slash)


def test_a_redirect_to_a_slash_at_the_end_is_told_as_one_that_no_other_address_avoids() -> None:
    error = refused(301, b"", Location="/v1/chat/completions/")
    assert type(error) is BackendRefused
    assert "redirects to its path /v1/chat/completions/," in str(error)
    assert "Use that address" not in str(error)


# -- Stop ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "<Think>Well"])
def test_stop_closes_the_request_while_nothing_arrives(text: str) -> None:
    with talking(says_then(text, hang), patience=PATIENT) as (server, conversation):
        stopped: list[float] = []

        def cancelled() -> bool:
            if server.bodies and time.monotonic() > started + 0.5:
                stopped.append(time.monotonic())
            return bool(stopped)

        started = time.monotonic()
        *pieces, completion = conversation.stream(opening(), Sampling(), cancelled)
        ended = time.monotonic()
        assert (completion.text, completion.stop) == (text, "cancelled")
        assert "".join(map(str, pieces)) == text
        assert ended - stopped[0] < 1
        until(lambda: bool(server.closed_at))
        assert server.closed_at[0] - stopped[0] < 1


def test_stop_ends_the_wait_between_two_tries() -> None:
    with talking(refuses(429, headers={"Retry-After": "5"})) as (server, conversation):
        started = time.monotonic()
        items = list(conversation.stream(opening(), Sampling(), lambda: bool(server.bodies)))
        assert items[-1].stop == "cancelled"
        assert time.monotonic() - started < 4


def test_closing_the_stream_closes_the_request() -> None:
    with talking(says_then("<Think>Well", hang), patience=PATIENT) as (server, conversation):
        stream = conversation.stream(opening(), Sampling())
        assert next(stream) == "<Think>Well"
        stream.close()  # type: ignore[attr-defined]
        until(lambda: bool(server.closed_at))
        conversation.close()
        with pytest.raises(BackendFailed, match="closed"):
            ask(conversation)


# -- whole comparisons --------------------------------------------------------------------------------------------------


def run(pair: VideoPair, answers: Sequence[Answer], trace: Path | None = None) -> list[Any]:
    with serving(*answers) as server:
        return list(judge(pair, open_judge(server), Settings(), trace=trace))


def test_the_key_stands_nowhere(
    pair: VideoPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Also if the server repeats it in each of its errors."""
    monkeypatch.setenv("VRTHINKER_API_KEY", KEY)
    caplog.set_level("DEBUG")
    echo = "You sent {key}, and I do not like it"
    answers = [refuses(status, echo) for status in (400, 401, 403, 404, 429)]
    told = "no, {0[Authorization]}".format
    answers.append(lambda handler, _: handler.send_json(418, {"detail": told(handler.headers)}))
    answers.append(sends(events({"error": {"message": f"I got Bearer {KEY}"}})))
    codes = (
        *(KEY.upper(), KEY[::-1], " ".join(KEY), f"**{KEY[4:-1]}", KEY.encode().hex()),
        *(KEY[:4] + "\\u002d" + KEY[5:], quote(quote(KEY.replace("-", "%2D")))),
        b64encode(f"x{KEY}".encode()).decode(),
    )
    answers += [refuses(429, f"You sent {code} here") for code in codes]
    seen = []
    for number, answer in enumerate(answers):
        trace = tmp_path / f"{number}.json"
        ends = run(pair, [answer], trace)
        assert ends[-1].error
        seen += [repr(ends), trace.read_text("utf-8"), repr(load(trace))]
    with serving(says()) as server:
        backend = open_judge(server)
        ends = list(judge(pair, backend, Settings(), trace=tmp_path / "good.json"))
        assert any(isinstance(event, TextArrived) for event in ends)
        assert server.keys[-1] == f"Bearer {KEY}"
        seen += [repr(ends), (tmp_path / "good.json").read_text("utf-8")]
        seen += [repr(backend.server), str(backend.server.model)]
    with serving(cards=401) as server, pytest.raises(JudgeError) as caught:
        open_judge(server)
    seen += [str(caught.value), caplog.text, *capfd.readouterr()]
    assert [text for text in seen if any(code in text for code in (KEY, *codes))] == []


def test_an_organisation_goes_along_with_the_operators_own_key_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    own, theirs = Secret(KEY, "OPENAI_API_KEY"), Secret(KEY, "API key")
    cases = ("openai", own, "org-1"), ("openai", theirs, None), ("server", own, None)
    for kind, secret, sent in cases:
        client = make_client(JudgeName(kind, "http://127.0.0.1/v1"), secret, QUICK)
        assert client.organization == sent
