"""Each way in which a server fails has a named end that says what to do; tries are made only before the first token."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
)
from tests.support.faulty_server import (
    ANSWER,
    Answer,
    Handler,
    delta,
    refuses,
    says,
    says_then,
    sends,
    serving,
)
from tests.support.waiting import until
from vrthinker_core import Settings, VideoPair, judge
from vrthinker_core.backends import server_errors as failures
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    ContextFull,
    JudgeError,
    ServerUnavailable,
    TooManyPictures,
)
from vrthinker_core.traces import load
from vrthinker_core.types.events import TextArrived
from vrthinker_core.types.messages import Sampling

KEY = "sk-test-3f9a71c2"
LONG = "This model's maximum context length is 4096 tokens. However, your prompt contains 9000 input tokens."
MANY = "At most 64 image(s) may be provided in one prompt. Set `--limit-mm-per-prompt` to increase this limit."
ADVICE = "<recommend answer><answer>TA=1</answer></recommend answer>"

STREAMED = b'data: {"error": {"message": "engine died", "code": 500}}\n\n'


def hang(handler: Handler) -> None:
    handler.wait_until_closed()


def drip(handler: Handler) -> None:
    handler.keep_alive()


def drip_a_list(handler: Handler) -> None:
    handler.begin_stream()
    drip(handler)


def go_on_and_on(handler: Handler) -> None:
    while True:
        handler.send_event(delta("and on " * 1000))


def too_long_after_all(handler: Handler) -> None:
    handler.send_event(
        b'{"error": {"message": "The prompt exceeds the maximum model length.", "code": 400}}'
    )


def nothing(handler: Handler) -> None:
    pass


ENDS: dict[str, tuple[Answer, type[JudgeError], str]] = {
    "a context too long": (refuses(400, LONG), ContextFull, "longer context"),
    "too many pictures": (refuses(400, MANY), TooManyPictures, "64 pictures.*--limit-mm-per-prompt"),
    "a model that is gone": (refuses(404, "The model `x` does not exist."), BackendRefused, "It says: The model `x` does not"),
    "a wrong path": (refuses(404, "Not Found"), BackendRefused, "/v1"),
    "a wrong key": (refuses(401, "Incorrect API key"), BackendRefused, "VRTHINKER_API_KEY"),
    "a body too large": (refuses(413, "Payload Too Large"), BackendRefused, "memory window"),
    "no quota": (refuses(429, "You exceeded your current quota", code="insufficient_quota"), BackendRefused, "quota"),
    "a limit of a quota a minute": (refuses(429, "See aka.ms/oai/quotaincrease"), ServerUnavailable, "too many requests"),
    "too many requests": (refuses(429, "slow down"), ServerUnavailable, "too many requests.*asked 3 times"),
    "a server error": (refuses(503, "oh"), ServerUnavailable, "503.*asked 3 times"),
    "silence": (says_then("", hang), ServerUnavailable, "silent"),
    "a web page": (sends(b"<html><body>Welcome</body></html>", "text/html"), BackendFailed, "OpenAI-compatible"),
    "garbage for a chunk": (sends(b"data: {oops\n\n"), BackendFailed, "OpenAI-compatible"),
    "chunks of another kind": (sends(b'data: {"choices": [7]}\n\n'), BackendFailed, "OpenAI-compatible"),
    "an empty stream": (sends(b""), BackendFailed, "OpenAI-compatible"),
    "an error in the stream": (sends(STREAMED), ServerUnavailable, "engine died"),
    "a cut after some tokens": (says_then("<Think>Well", nothing), BackendFailed, "broke off"),
    "silence after some tokens": (says_then("<Think>Well", hang), BackendFailed, "silent"),
    "a drip after some tokens": (says_then("<Think>Well", drip), BackendFailed, "silent"),
    "a refusal after some tokens": (says_then("<Think>Well", too_long_after_all), ContextFull, "maximum model length"),
    "a reply without end": (says_then("<Think>Well", go_on_and_on), BackendRefused, "does not end"),
    "a tool parser": (says("", delta(tool_calls=[{"index": 0, "function": {"name": "f"}}])), BackendRefused, "--tool-call-parser"),
    "a dropped tag": (says('{"name": "select_frames"}</tool_call>'), BackendRefused, "--tool-call-parser"),
    "a dropped tag behind advice": (says(f"{ADVICE}{{}}</tool_call>"), BackendRefused, "--tool-call-parser"),
    "a content filter": (says("Well", finish="content_filter"), BackendRefused, "content filter"),
    "anything else": (refuses(400, "I do not like\nthis at all."), BackendRefused, "It says: I do not like this at all"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_each_failure_is_a_sentence_that_says_what_to_do(name: str) -> None:
    answer, kind, words = ENDS[name]
    error, _ = failure_of(answer)
    assert type(error) is kind
    assert re.search(words, str(error)), str(error)
    assert "\n" not in str(error)
    assert "127.0.0.1" not in str(error)


def test_nothing_that_cannot_help_is_tried_again() -> None:
    for name in ("a wrong key", "a model that is gone", "a cut after some tokens"):
        assert failure_of(ENDS[name][0])[1] == 1, name


def test_what_passes_is_tried_again_and_counted_once() -> None:
    answers = (refuses(503), refuses(429), says_then("", nothing), says())
    with serving(*answers, cards=GENERAL) as server:
        conversation = open_judge(server, patience=replace(QUICK, silence=2)).open_conversation()
        with pytest.raises(BackendFailed):  # by an empty stream, which no other try mends
            ask(conversation, opening())
        pieces, completion = ask(conversation, opening())
        conversation.close()
    assert "".join(pieces) == completion.text == ANSWER
    assert completion.new_tokens == len(pieces)
    assert completion.prompt_tokens == 100


def test_retry_after_is_honoured() -> None:
    with serving(refuses(429, headers={"Retry-After": "0.6"}), says()) as server:
        started = time.monotonic()
        asked(server)
        assert time.monotonic() - started >= 0.6
    error, requests = failure_of(refuses(429, headers={"Retry-After": "3600"}))
    assert isinstance(error, ServerUnavailable)
    assert requests == 1


def test_the_deadline_is_kept_whatever_arrives_and_the_tries_are_counted() -> None:
    quick = replace(QUICK, silence=60, deadline=0.5)
    for answer in (says_then("", drip), says_then("", hang)):
        with serving(answer) as server:
            conversation = open_judge(server, patience=quick).open_conversation()
            # Asked once, so no number is told
            with pytest.raises(ServerUnavailable, match=r"silent.*compare again\.$"):
                ask(conversation, opening())
            conversation.close()
    with serving(cards=drip_a_list) as server, pytest.raises(ServerUnavailable, match="silent"):
        open_judge(server, patience=quick)


def test_where_too_many_files_are_open_the_server_is_not_blamed() -> None:
    error = openai.APIConnectionError(request=SimpleNamespace())  # type: ignore[arg-type]
    error.__cause__ = OSError(errno.EMFILE, "Too many open files")
    assert "Too many files are open" in str(failures.failure_of(error, failures.Secret("", "")))


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with serving() as server:
        backend = open_judge(server)
        url = server.url
    conversation = backend.open_conversation()
    with pytest.raises(ServerUnavailable, match="cannot be reached"):
        ask(conversation, opening())
    conversation.close()
    with pytest.raises(ServerUnavailable, match="cannot be reached"):
        ServerBackend.open(parse_judge(f"server:{url}"), patience=QUICK)


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


# -- Stop ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "<Think>Well"])
def test_stop_closes_the_request_while_nothing_arrives(text: str) -> None:
    with serving(says_then(text, hang)) as server:
        conversation = open_judge(server, patience=type(QUICK)(silence=60)).open_conversation()
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
        conversation.close()


def test_stop_ends_the_wait_between_two_tries() -> None:
    with serving(refuses(429, headers={"Retry-After": "5"})) as server:
        conversation = open_judge(server).open_conversation()
        started = time.monotonic()
        items = list(conversation.stream(opening(), Sampling(), lambda: bool(server.bodies)))
        assert items[-1].stop == "cancelled"
        assert time.monotonic() - started < 4
        conversation.close()


def test_closing_the_stream_closes_the_request() -> None:
    with serving(says_then("<Think>Well", hang)) as server:
        conversation = open_judge(server, patience=type(QUICK)(silence=60)).open_conversation()
        stream = conversation.stream(opening(), Sampling())
        assert next(stream) == "<Think>Well"
        stream.close()  # type: ignore[attr-defined]
        until(lambda: bool(server.closed_at))
        conversation.close()
        with pytest.raises(BackendFailed, match="closed"):
            ask(conversation, opening())


# -- whole comparisons --------------------------------------------------------------------------------------------------


def run(pair: VideoPair, answers: Sequence[Answer], trace: Path | None = None) -> list[Any]:
    with serving(*answers) as server:
        return list(judge(pair, open_judge(server), Settings(), trace=trace))


def test_a_stream_cut_in_the_middle_is_judged_again_once(pair: VideoPair) -> None:
    *_, turn, end = run(pair, [says_then(ANSWER[:30], nothing), says()])
    assert turn.turn.completion.text == ANSWER
    assert turn.turn.completion.new_tokens == len(turn.turn.completion.pieces)
    assert "broke off" in turn.turn.note
    assert end.verdict.whole


def test_the_key_stands_nowhere(
    pair: VideoPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Also where the server repeats it in each of its errors."""
    monkeypatch.setenv("VRTHINKER_API_KEY", KEY)
    caplog.set_level("DEBUG")
    echo = "You sent {key}, and I do not like it"
    answers = [refuses(status, echo) for status in (400, 401, 403, 404, 422, 429, 500)]
    told = "no, {0[Authorization]}".format
    answers.append(lambda handler, _: handler.send_json(418, {"detail": told(handler.headers)}))
    answers.append(sends(b'data: {"error": {"message": "I got Bearer ' + KEY.encode() + b'"}}\n\n'))
    seen = []
    for number, answer in enumerate(answers):
        trace = tmp_path / f"{number}.json"
        events = run(pair, [answer], trace)
        assert events[-1].error
        seen += [repr(events), trace.read_text("utf-8"), repr(load(trace))]
    with serving(says()) as server:
        backend = open_judge(server)
        events = list(judge(pair, backend, Settings(), trace=tmp_path / "good.json"))
        assert any(isinstance(event, TextArrived) for event in events)
        assert server.keys[-1] == f"Bearer {KEY}"
        seen += [repr(events), (tmp_path / "good.json").read_text("utf-8")]
        seen += [repr(backend.server), str(backend.server.model)]
    with serving(cards=401) as server, pytest.raises(JudgeError) as caught:
        open_judge(server)
    seen += [str(caught.value), caplog.text, *capfd.readouterr()]
    assert [text for text in seen if KEY in text] == []
