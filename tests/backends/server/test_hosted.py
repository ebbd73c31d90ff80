"""Judges of hosts: their keys, fields, lists and prices, in whole runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import reduce

import pytest

from tests.support import fake_hosts
from tests.support.fake_hosts import KEY, LOOK
from tests.support.faulty_server import FaultyServer
from vrthinker_core import Settings, VideoPair, judge, open_backend
from vrthinker_core.backends.hosted import HOSTS
from vrthinker_core.backends.judge_name import Kind
from vrthinker_core.errors import BackendRefused, BadInput
from vrthinker_core.types.events import Trace, add_event
from vrthinker_core.types.progress import dollars, totals

MODELS: dict[Kind, str] = {
    "openai": "gpt-5.2",
    "gemini": "gemini-3-flash",
    "openrouter": "qwen/qwen3-vl-8b-instruct",
    "hf-inference": "Qwen/Qwen3-VL-8B-Instruct",
}
FAKES = {
    "openai": fake_hosts.openai_host,
    "gemini": fake_hosts.gemini_host,
    "openrouter": fake_hosts.openrouter_host,
    "hf-inference": fake_hosts.hf_host,
}
WRONG = "sk-wrong-0123456789"


@contextmanager
def host(
    kind: Kind, fake: AbstractContextManager[FaultyServer] | None = None, key: str = KEY
) -> Iterator[FaultyServer]:
    """A host in the place of the real one, with its key set."""
    with fake or FAKES[kind]() as server, pytest.MonkeyPatch.context() as patch:
        patch.setitem(HOSTS, kind, replace(HOSTS[kind], url=server.url))
        patch.setenv(HOSTS[kind].key, key)
        yield server


def run(pair: VideoPair, name: str) -> Trace:
    return reduce(add_event, judge(pair, open_backend(name), Settings()), None)


@pytest.mark.parametrize("kind", MODELS)
def test_a_whole_run_without_one_refusal(kind: Kind, pair: VideoPair) -> None:
    """Each host is sent what it takes from the start, and the protocol's rules in words."""
    with host(kind) as server:
        trace = run(pair, f"{kind}:{MODELS[kind]}")
    assert trace.finished.verdict is not None, trace.finished.error
    assert trace.started.judge == MODELS[kind]
    assert len(server.bodies) == 2
    limit = "max_completion_tokens" if kind == "openai" else "max_tokens"
    for body in server.bodies:
        assert {"model", "messages", "stream", limit, "stream_options"} <= body.keys()
        assert ("temperature" in body) == (kind != "openai")
        assert ("logprobs" in body) == (kind in ("openrouter", "hf-inference"))
        assert "<tool_call>" in body["messages"][0]["content"]
    assert any("told the protocol's rules" in note for note in trace.started.notes)
    assert any("no temperature" in note for note in trace.started.notes) == (kind == "openai")
    assert KEY not in repr(trace)


def test_an_older_model_of_openai_is_told_a_temperature_and_asked_for_probabilities() -> None:
    with host("openai"):
        features = open_backend("openai:gpt-4.1").server.form.features  # type: ignore[attr-defined]
    assert {"temperature", "logprobs"} <= features
    assert "max_tokens" not in features


# -- keys ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
def test_a_missing_key_is_named_with_where_to_get_one(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(HOSTS[kind].key, raising=False)
    monkeypatch.setenv("VRTHINKER_API_KEY", "of another server")
    with pytest.raises(BadInput) as caught:
        open_backend(f"{kind}:{MODELS[kind]}")
    assert HOSTS[kind].key in str(caught.value)
    assert HOSTS[kind].keys_at in str(caught.value)


@pytest.mark.parametrize("kind", MODELS)
def test_a_wrong_key_is_told_in_the_words_of_the_host_and_never_shown(
    kind: Kind, pair: VideoPair
) -> None:
    """Two hosts refuse the list; at the others everybody may read it."""
    with host(kind, key=WRONG) as server:
        try:
            said = run(pair, f"{kind}:{MODELS[kind]}").finished.error  # type: ignore[union-attr]
        except BackendRefused as error:
            said = str(error)
        assert len(server.bodies) <= 1
    assert f"does not accept the key in {HOSTS[kind].key}" in said
    words = {
        "openai": "Incorrect API key provided: [key]",
        "gemini": "API key not valid",
        "openrouter": "User not found",
        "hf-inference": "Invalid username or password",
    }
    assert f"It says: {words[kind]}" in said
    assert not any(part in said for part in (WRONG, "sk-wrong", "6789"))


# -- lists and prices ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "model", "words"),
    [
        ("openrouter", "qwen/qwen3-8b", "takes no pictures.*Choose a model that does"),
        ("openrouter", "qwen/qwen3-8b:free", "takes no pictures"),
        ("hf-inference", "Qwen/Qwen3-8B", "takes no pictures"),
        ("hf-inference", "Qwen/Qwen3-8B:novita", "takes no pictures"),
        ("openrouter", "qwen/qwen3-vl-8b", "no model.*It has qwen/qwen3-8b, qwen/qwen3-vl"),
        ("openai", "gpt-5.3", "no model 'gpt-5.3'.*gpt-5.2"),
        ("gemini", "gemini-2-flash", "no model.*gemini-3-flash"),
    ],
)
def test_a_model_that_cannot_judge_is_refused_before_the_run(
    kind: Kind, model: str, words: str
) -> None:
    with host(kind) as server:
        with pytest.raises(BackendRefused, match=words):
            open_backend(f"{kind}:{model}")
        assert not server.bodies


def test_a_run_says_what_it_cost_by_the_list_of_prices(pair: VideoPair) -> None:
    with host("openrouter"):
        trace = run(pair, "openrouter:qwen/qwen3-vl-8b-instruct")
    done = [turn.completion for turn in trace.turns]
    read, written = sum(each.prompt_tokens or 0 for each in done), 2 * (len(LOOK) // 4)
    assert read > 24 * 256
    cost = sum(each.cost or 0 for each in done)
    assert 2e-7 * read < cost < 2e-7 * read + 8e-7 * written
    assert f"{read:,} tokens read, " in totals(trace.turns)
    assert totals(trace.turns).endswith(f"written · about {dollars(cost)}")


def test_what_the_host_says_that_a_reply_cost_wins(pair: VideoPair) -> None:
    with host("openrouter", fake_hosts.openrouter_host(cost=0.021)):
        trace = run(pair, "openrouter:qwen/qwen3-vl-8b-instruct")
    assert totals(trace.turns).endswith("about $0.042")


@pytest.mark.parametrize("name", ["openai:gpt-5.2", "openrouter:openrouter/auto"])
def test_without_prices_only_tokens_are_told(name: str, pair: VideoPair) -> None:
    with host("openai"), host("openrouter"):
        trace = run(pair, name)
    assert "tokens read" in totals(trace.turns)
    assert "$" not in totals(trace.turns)


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0, "$0.00"), (0.00001, "less than $0.0001"), (0.00123, "$0.0012"), (0.0123, "$0.012"),
     (0.5, "$0.50"), (1.234, "$1.23"), (12, "$12.00")],
)  # fmt: skip
def test_dollars_are_told_with_two_digits(amount: float, shown: str) -> None:
    assert dollars(amount) == shown
