"""Judges on servers of one's own machine and on hosts: found, asked, refused and priced, in whole runs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import reduce
from typing import Any

import pytest

from tests.support import fake_hosts
from tests.support.fake_hosts import KEY, LOOK, TEXT_ONLY, VISION, pictures
from tests.support.faulty_server import ANSWER, FaultyServer
from vrthinker_core import Settings, VideoPair, judge, open_backend
from vrthinker_core.backends.judge_name import JUDGES, host_of
from vrthinker_core.backends.offers import LocalServer, find_local, local_servers
from vrthinker_core.errors import BackendRefused, BadInput, JudgeError
from vrthinker_core.types.events import StopReason, Trace, add_event
from vrthinker_core.types.wording import totals
from vrthinker_core.words import dollars

SECONDS = 5.0  # The machine of the tests may be busy
QWEN = "qwen/qwen3-vl-8b"  # As LM Studio lists it
Fake = AbstractContextManager[FaultyServer]


@pytest.fixture
def closed() -> int:
    """A port at which nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return int(port)


def port(server: FaultyServer) -> int:
    return int(server.server_address[1])


def run(pair: VideoPair, name: object, settings: Settings | None = None) -> Trace:
    return reduce(add_event, judge(pair, open_backend(str(name)), settings or Settings()), None)


FOUND: dict[str, Fake] = {
    "Ollama": fake_hosts.ollama(),
    "LM Studio": fake_hosts.lmstudio(),
    "llama.cpp": fake_hosts.llamacpp(),
    "vLLM": fake_hosts.openai_alike("vllm"),
    "SGLang": fake_hosts.openai_alike("sglang"),
}


@pytest.mark.parametrize("engine", FOUND)
def test_a_whole_run_on_the_server_that_is_found(engine: str, pair: VideoPair, closed: int) -> None:
    with FOUND[engine] as server:
        (found,) = local_servers([closed, port(server)], SECONDS)
        assert (found.engine, found.url) == (engine, server.url)
        assert not {TEXT_ONLY, "nomic"} & {*found.models}
        server.bodies.clear()
        trace = run(pair, find_local(ports=[port(server)], seconds=SECONDS))
        first, second = server.bodies[-2:]
    assert trace.finished.verdict is not None, trace.finished.error
    assert trace.finished.verdict.whole
    assert [turn.completion.text for turn in trace.turns] == [LOOK, ANSWER]
    assert (pictures(first), pictures(second)) == (8, 16)
    assert ("logprobs" in first) == (engine != "LM Studio")
    assert ("skip_special_tokens" in first) == (engine in ("vLLM", "SGLang"))


def test_servers_are_taken_in_order_and_models_by_name(closed: int) -> None:
    with fake_hosts.ollama() as last, fake_hosts.lmstudio() as first:
        ports = [closed, port(first), port(last)]
        assert local_servers(ports, SECONDS) == [
            LocalServer("LM Studio", first.url, (QWEN,)),
            LocalServer("Ollama", last.url, (VISION,)),
        ]
        assert find_local("", ports, SECONDS).what == first.url
        for name in (VISION, "qwen2.5vl"):
            found = find_local(name, ports, SECONDS)
            assert (found.what, found.model) == (last.url, VISION)
        with pytest.raises(BackendRefused, match=f"no model '{TEXT_ONLY}' that sees.*{VISION}"):
            find_local(TEXT_ONLY, ports, SECONDS)


@pytest.mark.parametrize(
    "server",
    [
        fake_hosts.ollama(TEXT_ONLY),
        fake_hosts.lmstudio(vision=False),
        fake_hosts.llamacpp(mmproj=False),
        fake_hosts.llamacpp(mmproj=False, says_so=False),
        fake_hosts.refuses_pictures("vllm"),
        fake_hosts.openai_alike("sglang", picture=0),
        fake_hosts.openai_alike("someone", picture=1),
    ],
    ids=["Ollama", "LM Studio", "llama.cpp", "old llama.cpp", "vLLM", "drops", "a mark for each"],
)
def test_a_model_that_takes_no_pictures_is_not_taken(server: Fake) -> None:
    with server as running, pytest.raises(BackendRefused, match="ollama run") as caught:
        find_local(ports=[port(running)], seconds=SECONDS)
    assert "no model that sees pictures" in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


def test_whatever_else_answers_is_no_server(closed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no proxy is asked for this machine, and no key of a host is sent there."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with ExitStack() as stack:
        odd = (b"<html>Welcome</html>", 401, 500, [])
        servers = [stack.enter_context(fake_hosts.serving(cards=cards)) for cards in odd]
        servers.append(stack.enter_context(fake_hosts.llamacpp()))
        found = local_servers([*map(port, servers)], SECONDS)
        assert [each.engine for each in found if each.models] == ["llama.cpp"]
        assert servers[-1].keys
        assert not any("sk-of-openai" in key for server in servers for key in server.keys)
    with pytest.raises(BackendRefused, match=r"No server was found.*`ollama run qwen2.5vl:7b`"):
        find_local(ports=[closed], seconds=SECONDS)


# -- what an engine says, before a run ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "model", "words"),
    [
        (fake_hosts.ollama(), TEXT_ONLY, "takes no pictures.*ollama pull"),
        (fake_hosts.lmstudio(vision=False), QWEN, "takes no pictures.*LM Studio"),
        (fake_hosts.llamacpp(mmproj=False), "", "takes no pictures.*--mmproj"),
        (fake_hosts.ollama(), "qwen2.5vl", f"no model 'qwen2.5vl'. It has {VISION}"),
    ],
    ids=["Ollama", "LM Studio", "llama.cpp", "no tag"],
)
def test_a_model_that_cannot_judge_is_refused_on_opening(
    server: Fake, model: str, words: str
) -> None:
    with server as running, pytest.raises(JudgeError, match=words):
        open_backend(f"server:{running.url}#{model}")


@pytest.mark.parametrize(
    ("engine", "made", "model"),
    [("llama.cpp", fake_hosts.llamacpp, ""), ("LM Studio", fake_hosts.lmstudio, f"#{QWEN}")],
)
def test_the_context_of_a_server_is_a_conversations(engine: str, made: Any, model: str) -> None:
    with made(context=8_192) as server:
        backend = open_backend(f"server:{server.url}{model}")
        with closing(backend.open_conversation()) as conversation:
            assert conversation.context_length == 8_192
    assert any(f"{engine} reads 8,192 tokens" in note for note in backend.notes)


def test_llama_cpp_goes_on_behind_a_forced_answer(pair: VideoPair) -> None:
    with fake_hosts.llamacpp() as server:
        assert run(pair, f"server:{server.url}", Settings(max_turns=1)).turns
        first, second = server.bodies
    assert first["messages"][-1]["role"] == "user"
    assert second["messages"][-1]["content"].endswith("<Answer>")
    assert second["chat_template_kwargs"] == {"enable_thinking": False}
    assert "continue_final_message" not in second


# -- prompts that are cut -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("picture", "context"), [(64, 1_800), (256, 4_096), (700, 4_096)])
def test_a_prompt_that_ollama_cuts_ends_the_run_with_what_to_set(
    pair: VideoPair, picture: int, context: int
) -> None:
    """In the first turn there is no room for a reply, or the second one would be longer than what is read."""
    with fake_hosts.ollama(VISION, context=context, picture=picture) as server:
        finished = run(pair, f"server:{server.url}").finished
    assert (finished.stop, finished.verdict) == (StopReason.CONTEXT_FULL, None)
    said = " ".join((finished.error, *finished.notes))
    assert "OLLAMA_CONTEXT_LENGTH=32768" in said
    assert f"reads {context:,} tokens" in said


@pytest.mark.parametrize(("picture", "owner"), [(1, "library"), (64, "a-person")])
def test_a_prompt_that_fits_is_no_fault(pair: VideoPair, picture: int, owner: str) -> None:
    with fake_hosts.ollama(VISION, picture=picture, owner=owner) as server:
        finished = run(pair, f"server:{server.url}").finished
    assert finished.verdict is not None
    assert not finished.error


@pytest.mark.parametrize(("counted", "requests"), [(200, 1), (2_000, 2)])
def test_a_count_that_cannot_be_is_proof(pair: VideoPair, counted: int, requests: int) -> None:
    """Fewer tokens than the text has words, or as many as before although frames came."""
    with fake_hosts.lmstudio(context=None) as server:
        server.answers = [fake_hosts.replies(counted=lambda _: counted)]
        finished = run(pair, f"server:{server.url}#{QWEN}").finished
        assert len(server.bodies) == requests
    assert finished.stop is StopReason.CONTEXT_FULL
    assert "LM Studio reads fewer tokens than it was sent" in finished.error
    assert "lms load" in finished.error


def test_llama_cpp_refuses_what_is_too_long_in_its_own_words(pair: VideoPair) -> None:
    with fake_hosts.llamacpp(context=2_000) as server:
        finished = run(pair, f"server:{server.url}").finished
    assert finished.stop is StopReason.CONTEXT_FULL
    assert "-c 32768" in finished.error
    assert "exceeds the available context size (2000 tokens)" in finished.error


# -- hosts ---------------------------------------------------------------------------------------------------------------

OPENROUTER = "qwen/qwen3-vl-8b-instruct"
HUGGING_FACE = "Qwen/Qwen3-VL-8B-Instruct"
HOSTED: dict[str, tuple[str, Any, str]] = {
    "openai": ("gpt-5.2", fake_hosts.openai_host, "Incorrect API key provided: [key]"),
    "gemini": ("gemini-3-flash", fake_hosts.gemini_host, "API key not valid"),
    "openrouter": (OPENROUTER, fake_hosts.openrouter_host, "User not found"),
    "hf-inference": (HUGGING_FACE, fake_hosts.hf_host, "Invalid username or password"),
}
"""For each host a model, a fake, and what it says to a wrong key."""
WRONG = "sk-wrong-0123456789"


@contextmanager
def host(kind: str, fake: Fake | None = None, key: str = KEY) -> Iterator[FaultyServer]:
    """A host in the place of the real one, with its key set."""
    with fake or HOSTED[kind][1]() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv(fake_hosts.put_at(patch, kind, server.url).key, key)
        yield server


def test_every_host_of_the_registry_is_tried_here() -> None:
    assert HOSTED.keys() == {kind for kind, entry in JUDGES.items() if entry.host}


@pytest.mark.parametrize("kind", HOSTED)
def test_a_whole_run_without_one_refusal(kind: str, pair: VideoPair) -> None:
    """Each host is sent what it takes from the start, and the protocol's rules in words."""
    model = HOSTED[kind][0]
    with host(kind) as server:
        trace = run(pair, f"{kind}:{model}")
    assert trace.finished.verdict is not None, trace.finished.error
    assert trace.started.judge == model
    assert len(server.bodies) == 2
    limit = "max_completion_tokens" if kind == "openai" else "max_tokens"
    for body in server.bodies:
        assert {"model", "messages", "stream", limit, "stream_options"} <= body.keys()
        assert ("temperature" in body) == (kind != "openai")
        assert ("logprobs" in body) == (kind in ("openrouter", "hf-inference"))
        assert "<tool_call>" in body["messages"][0]["content"]
    assert any("told the protocol's rules" in note for note in trace.started.notes)
    assert any("chooses the temperature" in note for note in trace.started.notes) == (
        kind == "openai"
    )
    assert KEY not in repr(trace)


def test_an_older_model_of_openai_is_told_a_temperature_and_asked_for_probabilities() -> None:
    with host("openai"):
        features = open_backend("openai:gpt-4.1").server.form.features  # type: ignore[attr-defined]
    assert {"temperature", "logprobs"} <= features
    assert "max_tokens" not in features


@pytest.mark.parametrize("kind", HOSTED)
def test_a_missing_or_wrong_key_is_told_in_the_words_of_the_host_and_never_shown(
    kind: str, pair: VideoPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hosts refuse the list; at the others everybody may read it."""
    name = f"{kind}:{HOSTED[kind][0]}"
    known = host_of(kind)
    assert known
    monkeypatch.delenv(known.key, raising=False)
    monkeypatch.setenv("VRTHINKER_API_KEY", "of another server")
    with pytest.raises(BadInput) as caught:
        open_backend(name)
    assert known.key in str(caught.value)
    assert known.keys_at in str(caught.value)
    with host(kind, key=WRONG) as server:
        try:
            said = run(pair, name).finished.error  # type: ignore[union-attr]
        except BackendRefused as error:
            said = str(error)
        assert len(server.bodies) <= 1
    assert f"does not accept the key in {known.key}" in said
    assert f"It says: {HOSTED[kind][2]}" in said
    assert not any(part in said for part in (WRONG, "sk-wrong", "6789"))


@pytest.mark.parametrize(
    ("kind", "model", "words"),
    [
        ("openrouter", "qwen/qwen3-8b", "takes no pictures.*Choose a model that does"),
        ("hf-inference", "Qwen/Qwen3-8B:novita", "takes no pictures"),
        ("openrouter", "qwen/qwen3-vl-8b", "no model.*It has qwen/qwen3-8b, qwen/qwen3-vl"),
        ("openai", "gpt-5.3", "no model 'gpt-5.3'.*gpt-5.2"),
    ],
)
def test_a_model_of_a_host_that_cannot_judge_is_refused_before_the_run(
    kind: str, model: str, words: str
) -> None:
    with host(kind) as server:
        with pytest.raises(BackendRefused, match=words):
            open_backend(f"{kind}:{model}")
        assert not server.bodies


def test_a_run_says_what_it_cost_by_the_list_of_prices_or_by_the_host(pair: VideoPair) -> None:
    with host("openrouter"):
        trace = run(pair, f"openrouter:{OPENROUTER}")
    done = [turn.completion for turn in trace.turns]
    read, written = sum(each.prompt_tokens or 0 for each in done), 2 * (len(LOOK) // 4)
    assert read > 24 * 256
    cost = sum(each.cost or 0 for each in done)
    assert 2e-7 * read < cost < 2e-7 * read + 8e-7 * written
    assert f"{read:,} tokens read, " in totals(trace.turns)
    assert totals(trace.turns).endswith(f"written · about {dollars(cost)}")
    with host("openrouter", fake_hosts.openrouter_host(cost=0.021)):
        trace = run(pair, f"openrouter:{OPENROUTER}")
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
