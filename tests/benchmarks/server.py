"""python -m tests.benchmarks.server (--vllm FOLDER | --address URL) [--quick]

The built-in judge on a vLLM server against the same judge in this process, over drawn pairs.

Draws 120 pairs (12 with --quick) and judges each in this process and through the server: a quarter of them one at a time, a quarter
with 16 in hand, half with 64, so that no way finds what another has left in the server's caches; one more pair is judged before. Prints
how many pairs have the same replies character for character, how many pairs a minute each way gives, what the requests of each turn
weigh, counted by a proxy over some of them again, and this process's time for a token of a reply: streamed token by token (from another
server, but for --quick), streamed by 16 tokens, and whole, as `evaluate` asks. The last line is JSON. `--vllm` names the folder of a
virtual environment with vLLM, `--address` a server that runs already.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.backends.support.random_model import noise_frame
from tests.benchmarks.tools import benchmark_parser
from tests.support.drawn_pairs import drawn_pairs
from tests.support.served_models import NO_VLLM, vllm_program, vllm_serving
from tests.support.wire_counter import CountingProxy, counting
from vrthinker_core import TurnEnded, VideoPair, judge_many, open_backend
from vrthinker_core.backends import Backend
from vrthinker_core.types.messages import Completion, Image, Message, Sampling, Text

UNSEEN = 2_000_001_000
"""First seed of the pairs: no training run draws from it, nor another benchmark."""

IN_HAND = (1, 16, 64)
INTERVAL = ("--stream-interval", "16")
WEIGHED = 10  # Pairs whose requests are weighed


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "12 pairs, and one server")
    parser.add_argument("--vllm", help="a virtual environment with vLLM (default: VRT_VLLM)")
    parser.add_argument("--address", help="a vLLM server that has the built-in judge as `nano`")
    options = parser.parse_args()
    count = 1 + (12 if options.quick else 120)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, *pairs = drawn_pairs(count, UNSEEN, folder / "pairs")
        with _address(options, folder, INTERVAL) as address:
            # What a server does once is done then
            replies_of([first], open_backend(f"server:{address}"), 1)
            result = measure(pairs, address)
            costs = {"whole": token_cost(address, False), "by_16": token_cost(address, True)}
        if not options.quick and not options.address:
            with _address(options, folder) as address:
                costs["one_by_one"] = token_cost(address, True)
    print(json.dumps(result | {"client_us_a_token": costs}))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    wire, rates = result["kilobytes_by_turn"], result["pairs_a_minute"]
    told = ", ".join(f"{rate:.0f} with {live}" for live, rate in rates.items())
    costs = ", ".join(
        f"{name.replace('_', ' ')} {cost}" for name, cost in result["client_us_a_token"].items()
    )
    return (
        f"the same replies for {result['equal']} of {result['pairs']} pairs; pairs a minute: {told} in hand; microseconds of this "
        f"process for a token: {costs}; requests of the first turn {wire['1']:,.0f} kB, of the second {wire.get('2', 0):,.0f} kB, in "
        f"which {result['pictures_sent_twice']} pictures are sent again"
    )


def measure(pairs: Sequence[VideoPair], address: str) -> dict[str, Any]:
    """Judge all pairs both ways; returns the figures."""
    local, served = open_backend("nano"), open_backend(f"server:{address}")
    served.streams = False  # type: ignore[attr-defined]
    ours, theirs = replies_of(pairs, local, 16), dict[VideoPair, list[str]]()
    quarter, rates = len(pairs) // 4, {}
    parts = pairs[:quarter], pairs[quarter : 2 * quarter], pairs[2 * quarter :]
    for live, part in zip(IN_HAND, parts, strict=True):
        started = time.perf_counter()
        theirs |= replies_of(part, served, live)
        rates[str(live)] = round(60 * len(part) / (time.perf_counter() - started), 1)
    with counting(address) as proxy:
        wire = _weigh(pairs[:WEIGHED], open_backend(f"server:{proxy.url}"), proxy)
    equal = sum(ours[pair] == theirs[pair] for pair in pairs)
    return {"pairs": len(pairs), "equal": equal, "pairs_a_minute": rates, **wire}


def replies_of(
    pairs: Sequence[VideoPair], backend: Backend, live: int
) -> dict[VideoPair, list[str]]:
    """The text of each turn of each pair."""
    found: dict[VideoPair, list[str]] = {pair: [] for pair in pairs}
    for number, event in judge_many(pairs, backend, live=live):
        if isinstance(event, TurnEnded):
            found[pairs[number]].append(event.turn.completion.text)
    return found


def token_cost(address: str, streams: bool) -> int:
    """Microseconds of this process for a token, over replies to one prompt whose pictures the server has."""
    backend = open_backend(f"server:{address}")
    backend.streams = streams  # type: ignore[attr-defined]
    frames = [Image(noise_frame(number, 112, 112)) for number in range(8)]
    messages, tokens = [Message("user", (*frames, Text("Compare them.")))], 0
    with closing(backend.open_conversation()) as conversation:
        deque(conversation.stream(messages, Sampling()), maxlen=0)
        started = time.process_time()
        while tokens < 3000:
            *_, reply = conversation.stream(messages, Sampling())
            assert isinstance(reply, Completion)
            tokens += reply.new_tokens or 0
        return round(1e6 * (time.process_time() - started) / tokens)


def _weigh(pairs: Sequence[VideoPair], served: Backend, proxy: CountingProxy) -> dict[str, Any]:
    """What the requests weigh by turn. A proxy that reads each is slower than the server alone, so nothing is timed here."""
    weights: dict[int, list[int]] = {}
    twice = 0
    for pair in pairs:
        before = len(proxy.request_bytes)
        replies_of([pair], served, 1)
        for turn, weight in enumerate(proxy.request_bytes[before:], start=1):
            weights.setdefault(turn, []).append(weight)
        sent = [digest for found in proxy.digests[before:] for digest in found]
        twice += len(sent) - len({*sent})
    median = {
        str(turn): round(statistics.median(found) / 1000, 1) for turn, found in weights.items()
    }
    return {"kilobytes_by_turn": median, "pictures_sent_twice": twice}


@contextmanager
def _address(options: argparse.Namespace, folder: Path, more: Sequence[str] = ()) -> Iterator[str]:
    if options.address:
        yield options.address
        return
    program = vllm_program(options.vllm)
    if program is None:
        raise SystemExit(f"{NO_VLLM}: give --vllm FOLDER or --address URL.")
    with vllm_serving(program, folder / "vllm.log", more) as address:
        yield address


if __name__ == "__main__":
    main()
