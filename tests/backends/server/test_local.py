"""Servers of one's own machine: the one that is found, what each engine says, and prompts that are cut without a word."""

from __future__ import annotations

import re
import socket
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.support import fake_hosts
from tests.support.fake_hosts import BLIND, LOOK, TEXT_ONLY, VISION, pictures
from tests.support.faulty_server import ANSWER, FaultyServer
from vrthinker_core import Finished, Settings, VideoPair, judge, open_backend
from vrthinker_core.backends.discover import LocalServer, find_local, local_servers
from vrthinker_core.errors import BackendRefused, JudgeError
from vrthinker_core.types.events import Started, StopReason, TurnEnded

SECONDS = 5.0  # The machine of the tests may be busy


@pytest.fixture
def closed() -> int:
    """A port at which nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return int(port)


def port(server: FaultyServer) -> int:
    return int(server.server_address[1])


def run(pair: VideoPair, name: object, settings: Settings | None = None) -> list[object]:
    return list(judge(pair, open_backend(str(name)), settings or Settings()))


def end(events: list[object]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


FOUND: dict[str, AbstractContextManager[FaultyServer]] = {
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
        events = run(pair, find_local(ports=[port(server)], seconds=SECONDS))
        first, second = server.bodies[-2:]
    finished = end(events)
    assert finished.verdict is not None, finished.error
    assert finished.verdict.whole
    texts = [each.turn.completion.text for each in events if isinstance(each, TurnEnded)]
    assert texts == [LOOK, ANSWER]
    assert (pictures(first), pictures(second)) == (8, 16)
    assert ("logprobs" in first, "skip_special_tokens" in first) == (
        engine != "LM Studio",
        engine in ("vLLM", "SGLang"),
    )


def test_servers_are_taken_in_order_and_models_by_name(closed: int) -> None:
    with fake_hosts.ollama() as last, fake_hosts.lmstudio() as first:
        ports = [closed, port(first), port(last)]
        assert local_servers(ports, SECONDS) == [
            LocalServer("LM Studio", first.url, ("qwen/qwen3-vl-8b",)),
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
def test_a_model_that_takes_no_pictures_is_not_taken(
    server: AbstractContextManager[FaultyServer],
) -> None:
    with server as running, pytest.raises(BackendRefused) as caught:
        find_local(ports=[port(running)], seconds=SECONDS)
    assert "no model that sees pictures" in str(caught.value)
    assert "ollama run" in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


def test_where_nothing_serves_the_sentence_says_what_to_start(closed: int) -> None:
    with pytest.raises(BackendRefused, match=r"No server was found.*`ollama run qwen2.5vl:7b`"):
        find_local(ports=[closed], seconds=SECONDS)


def test_whatever_else_answers_is_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no proxy is asked for this machine."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with ExitStack() as stack:
        odd = [
            stack.enter_context(fake_hosts.serving(cards=cards))
            for cards in (b"<html>Welcome</html>", 401, 500, [])
        ]
        good = stack.enter_context(fake_hosts.llamacpp())
        ports = [port(server) for server in (*odd, good)]
        assert [each.engine for each in local_servers(ports, SECONDS) if each.models] == [
            "llama.cpp"
        ]


def test_a_key_of_a_host_is_sent_to_no_server_that_was_merely_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    with fake_hosts.ollama() as server:
        local_servers([port(server)], SECONDS)
        assert server.keys
        assert not any("sk-of-openai" in key for key in server.keys)


# -- what an engine says, before a run ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "model", "words"),
    [
        (fake_hosts.ollama(), TEXT_ONLY, "takes no pictures.*ollama pull"),
        (fake_hosts.lmstudio(vision=False), "qwen/qwen3-vl-8b", "takes no pictures.*LM Studio"),
        (fake_hosts.llamacpp(mmproj=False), "", "takes no pictures.*--mmproj"),
        (fake_hosts.ollama(), "qwen2.5vl", f"no model 'qwen2.5vl'. It has {VISION}"),
    ],
    ids=["Ollama", "LM Studio", "llama.cpp", "no tag"],
)
def test_a_model_that_cannot_judge_is_refused_on_opening(
    server: AbstractContextManager[FaultyServer], model: str, words: str
) -> None:
    with server as running, pytest.raises(JudgeError, match=words):
        open_backend(f"server:{running.url}#{model}")


@pytest.mark.parametrize("engine", ["llama.cpp", "LM Studio"])
def test_the_context_of_the_server_is_that_of_the_conversation(engine: str) -> None:
    made = fake_hosts.llamacpp if engine == "llama.cpp" else fake_hosts.lmstudio
    with made(context=8_192) as server:
        backend = open_backend(
            f"server:{server.url}" + "#qwen/qwen3-vl-8b" * (engine == "LM Studio")
        )
        conversation = backend.open_conversation()
        assert conversation.context_length == 8_192
        conversation.close()
    assert any(re.search(f"{engine} reads 8,192 tokens", note) for note in backend.notes)


def test_missing_vision_part_is_quoted_at_once(pair: VideoPair) -> None:
    with fake_hosts.llamacpp(mmproj=False, says_so=False) as server:
        finished = end(run(pair, f"server:{server.url}"))
        assert len(server.bodies) == 1
    assert BLIND in finished.error
    assert finished.verdict is None


def test_llama_cpp_goes_on_behind_a_forced_answer(pair: VideoPair) -> None:
    with fake_hosts.llamacpp() as server:
        events = run(pair, f"server:{server.url}", Settings(max_turns=1))
        first, second = server.bodies
    assert first["messages"][-1]["role"] == "user"
    assert second["messages"][-1]["content"].endswith("<Answer>")
    assert second["chat_template_kwargs"] == {"enable_thinking": False}
    assert "continue_final_message" not in second
    assert isinstance(events[0], Started)


# -- prompts that are cut -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("picture", [64, 256, 700])
def test_a_prompt_that_ollama_cuts_ends_the_run_with_what_to_set(
    pair: VideoPair, picture: int
) -> None:
    """In the first turn there is no room for a reply, or the second one would be longer than what is read."""
    context = {64: 1_800, 256: 4_096, 700: 4_096}[picture]
    with fake_hosts.ollama(VISION, context=context, picture=picture) as server:
        finished = end(run(pair, f"server:{server.url}"))
    assert finished.stop is StopReason.CONTEXT_FULL
    assert finished.verdict is None
    said = " ".join((finished.error, *finished.notes))
    assert "OLLAMA_CONTEXT_LENGTH=32768" in said
    assert f"reads {context:,} tokens" in said


@pytest.mark.parametrize("picture", [1, 64, 256])
@pytest.mark.parametrize("owner", ["library", "a-person"])
def test_a_prompt_that_fits_is_blamed_for_nothing(
    pair: VideoPair, picture: int, owner: str
) -> None:
    with fake_hosts.ollama(VISION, picture=picture, owner=owner) as server:
        finished = end(run(pair, f"server:{server.url}"))
    assert finished.verdict is not None, finished.error
    assert not finished.error


@pytest.mark.parametrize("counted", [200, 2_000])
def test_a_count_that_cannot_be_is_proof(pair: VideoPair, counted: int) -> None:
    """Fewer tokens than the text has words, or as many as before although frames came."""
    with fake_hosts.lmstudio(context=None) as server:
        server.answers = [fake_hosts.replies(counted=lambda _: counted)]
        finished = end(run(pair, f"server:{server.url}#qwen/qwen3-vl-8b"))
        assert len(server.bodies) == (1 if counted == 200 else 2)
    assert finished.stop is StopReason.CONTEXT_FULL
    assert "LM Studio reads fewer tokens than it was sent" in finished.error
    assert "lms load" in finished.error


def test_llama_cpp_refuses_what_is_too_long_in_its_own_words(pair: VideoPair) -> None:
    with fake_hosts.llamacpp(context=2_000) as server:
        finished = end(run(pair, f"server:{server.url}"))
    assert finished.stop is StopReason.CONTEXT_FULL
    assert "-c 32768" in finished.error
    assert "exceeds the available context size (2000 tokens)" in finished.error
