"""python -m tests.benchmarks.server (--vllm FOLDER | --address URL) [--quick] [--pairs N]

The built-in judge on a vLLM server against the same judge in this process, over drawn pairs.

Draws 60 pairs (8 with --quick) and judges each in this process and through the server: every second pair one at a time, the others
16 in flight, so that neither way finds what the other has left in the server's caches; one more pair is judged before. Prints how
many pairs have the same replies character for character, how many pairs a second each way gives, and what the requests of each turn
weigh, counted by a proxy over some of them again. The last line is JSON. `--vllm` names the folder of a virtual environment with
vLLM, `--address` a server that runs already.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import benchmark_parser
from tests.support.drawn_pairs import drawn_pairs
from tests.support.served_models import NO_VLLM, vllm_program, vllm_serving
from tests.support.wire_counter import CountingProxy, counting
from vrthinker_core import TurnEnded, VideoPair, judge, open_backend
from vrthinker_core.backends import Backend

UNSEEN = 2_000_001_000
"""First seed of the pairs: no training run draws from it, nor another benchmark."""

IN_FLIGHT = 16
WEIGHED = 10  # Pairs whose requests are weighed


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "8 pairs")
    parser.add_argument("--pairs", type=int, help="60, with --quick 8")
    parser.add_argument("--vllm", help="a virtual environment with vLLM (default: VRT_VLLM)")
    parser.add_argument("--address", help="a vLLM server that has the built-in judge as `nano`")
    options = parser.parse_args()
    count = 1 + (options.pairs or (8 if options.quick else 60))
    with tempfile.TemporaryDirectory() as name, _address(options, Path(name)) as address:
        first, *pairs = drawn_pairs(count, UNSEEN, Path(name) / "pairs")
        replies(first, open_backend(f"server:{address}"))  # what a server does once is done then
        print(json.dumps(measure(pairs, address)))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    wire = result["kilobytes_by_turn"]
    return (
        f"the same replies for {result['equal']} of {result['pairs']} pairs; {result['in_flight']} in flight "
        f"{result['times_as_fast']:.2f} times as fast as one at a time; requests of the first turn {wire['1']:,.0f} kB, "
        f"of the second {wire.get('2', 0):,.0f} kB, in which {result['pictures_sent_twice']} pictures are sent again"
    )


def measure(pairs: Sequence[VideoPair], address: str) -> dict[str, Any]:
    """Judge all pairs both ways; returns the figures."""
    local = open_backend("nano")
    ours = {pair: replies(pair, local) for pair in pairs}
    alone, together = pairs[::2], pairs[1::2]
    served = open_backend(f"server:{address}")
    started = time.perf_counter()
    theirs = {pair: replies(pair, served) for pair in alone}
    alone_seconds = time.perf_counter() - started
    started = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as executor:
        found = executor.map(lambda pair: replies(pair, served), together)
        theirs |= dict(zip(together, found, strict=True))
    together_seconds = time.perf_counter() - started
    rates = len(alone) / alone_seconds, len(together) / together_seconds
    with counting(address) as proxy:
        wire = _weigh(alone[:WEIGHED], open_backend(f"server:{proxy.url}"), proxy)
    return {
        "pairs": len(pairs), "equal": sum(ours[pair] == theirs[pair] for pair in pairs),
        "in_flight": min(IN_FLIGHT, len(together)), "pairs_a_minute": [round(60 * rate, 2) for rate in rates],
        "times_as_fast": round(rates[1] / rates[0], 2), **wire,
    }  # fmt: skip


def replies(pair: VideoPair, backend: Backend) -> list[str]:
    """The text of each turn."""
    return [
        event.turn.completion.text for event in judge(pair, backend) if isinstance(event, TurnEnded)
    ]


def _weigh(pairs: Sequence[VideoPair], served: Backend, proxy: CountingProxy) -> dict[str, Any]:
    """What the requests weigh by turn. A proxy that reads each is slower than the server alone, so nothing is timed here."""
    weights: dict[int, list[int]] = {}
    twice = 0
    for pair in pairs:
        before = len(proxy.request_bytes)
        replies(pair, served)
        for turn, weight in enumerate(proxy.request_bytes[before:], start=1):
            weights.setdefault(turn, []).append(weight)
        sent = [digest for found in proxy.digests[before:] for digest in found]
        twice += len(sent) - len({*sent})
    median = {
        str(turn): round(statistics.median(found) / 1000, 1) for turn, found in weights.items()
    }
    return {"kilobytes_by_turn": median, "pictures_sent_twice": twice}


@contextmanager
def _address(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    if options.address:
        yield options.address
        return
    program = vllm_program(options.vllm)
    if program is None:
        raise SystemExit(f"{NO_VLLM}: give --vllm FOLDER or --address URL.")
    with vllm_serving(program, folder / "vllm.log") as address:
        yield address


if __name__ == "__main__":
    main()
