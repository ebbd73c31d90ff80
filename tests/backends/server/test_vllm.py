"""The built-in judge on a real vLLM says what it says in this process, character for character, and is sent no picture twice.

The environment variable VRT_VLLM names the folder of a virtual environment with vLLM; without it these tests are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.backends.server.support import ask, next_turn, opening
from tests.support.drawn_pairs import drawn_pairs
from tests.support.served_models import NO_VLLM, vllm_program, vllm_serving
from tests.support.wire_counter import counting
from vrthinker_core import Finished, Settings, VideoPair, judge, judge_many, open_backend
from vrthinker_core.backends.judge_name import parse_judge
from vrthinker_core.backends.offers import LocalServer, find_local, local_servers
from vrthinker_core.backends.server_backend import ServerBackend
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BackendRefused, ContextFull
from vrthinker_core.types.events import TurnEnded
from vrthinker_core.types.messages import Completion, Message, Sampling, Text

PROGRAM = vllm_program()
pytestmark = [pytest.mark.skipif(PROGRAM is None, reason=NO_VLLM), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with vllm_serving(PROGRAM, tmp_path_factory.mktemp("vllm") / "log.txt") as address:
        yield address


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[VideoPair]:
    return drawn_pairs(2, 2_000_000_100, tmp_path_factory.mktemp("pairs"))


def completions(pair: VideoPair, backend: object, settings: Settings) -> list[Completion]:
    events = list(judge(pair, backend, settings))  # type: ignore[arg-type]
    assert events[-1].verdict is not None, events[-1].error
    return [event.turn.completion for event in events if isinstance(event, TurnEnded)]


def test_replies_are_those_of_this_process(
    address: str, drawn: list[VideoPair], nano: TransformersBackend
) -> None:
    """With turns as they come, and with the answer forced in the first one."""
    served = ServerBackend.open(parse_judge(f"server:{address}"))
    assert served.protocols == nano.protocols
    for settings in (Settings(), Settings(max_turns=1)):
        for pair in drawn:
            ours, theirs = completions(pair, nano, settings), completions(pair, served, settings)
            for name in ("text", "prompt_tokens"):
                assert [getattr(each, name) for each in theirs] == [
                    getattr(each, name) for each in ours
                ]
            # vLLM counts the token that ends the reply
            assert [each.new_tokens for each in theirs] == [len(each.tokens) + 1 for each in ours]
            labels, text = theirs[-1].label_tokens, theirs[-1].text
            assert len(labels) >= 4
            for label in labels:
                shares = label.probabilities
                assert shares[int(text[label.offset])] == max(shares)
                assert 0.33 < sum(shares) <= 1.0001
    runs = judge_many(drawn, served, live=2)
    ends = {n: event.verdict for n, event in runs if isinstance(event, Finished)}
    alone = [list(judge(pair, nano))[-1].verdict for pair in drawn]
    assert [ends[n] for n in range(len(drawn))] == alone, "in one batch, too"


def test_a_second_turn_carries_no_picture_of_the_first(address: str) -> None:
    with counting(address) as wire:
        conversation = ServerBackend.open(parse_judge(f"server:{wire.url}")).open_conversation()
        first = opening(*range(1, 33))
        reply = ask(conversation, first, Sampling(max_new_tokens=8))
        ask(conversation, next_turn(first, reply=reply.text), Sampling(max_new_tokens=8))
        conversation.close()
    opened, second = wire.request_bytes
    assert opened > 64 * 100
    assert second < opened
    assert [len(each) for each in wire.digests] == [64, 0]


def test_it_is_found_on_this_machine_by_a_small_picture(address: str) -> None:
    port = urlsplit(address).port
    found = LocalServer("vLLM", address.replace("localhost", "127.0.0.1"), ("nano",))
    assert local_servers([port], 10) == [found]
    assert open_backend(str(find_local("nano", [port], 10))).scope == "drawn"


def test_failures_of_a_real_server_are_named(address: str) -> None:
    served = ServerBackend.open(parse_judge(f"server:{address}"))
    conversation = served.open_conversation()
    with pytest.raises(ContextFull, match="4096"):
        ask(conversation, [Message("user", (Text("hello qq " * 5000),))])
    with pytest.raises(BackendRefused, match=r"128 pictures.*--limit-mm-per-prompt"):
        ask(conversation, opening(*range(70)))
    with pytest.raises(BackendRefused, match=r"no model 'other'.*It has nano"):
        ServerBackend.open(parse_judge(f"server:{address}#other"))
    conversation.close()
