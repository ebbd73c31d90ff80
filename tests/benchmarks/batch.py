"""python -m tests.benchmarks.batch [--quick] [--gpu]

The built-in judge and 16 comparisons (8 with --quick): one after another, and all together. First the judge alone, over frames
that are decoded already; then the whole product, opening and decoding of the clips included. Prints comparisons per minute and
the ratios, in wall time and in processor time. With `--gpu` a random 7B speaks, over decoded frames alone.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.backends.small import seen
from tests.benchmarks.randoms import random_checkpoint
from tests.clips import write_clip
from vrthinker_core import Finished, VideoPair, judge, judge_many
from vrthinker_core.backends import NANO
from vrthinker_core.backends.base import Question
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.messages import Completion, Image, Message, Sampling, Text
from vrthinker_core.types import Side


def main() -> None:
    """Run the benchmark."""
    options = _options()
    count = 8 if options.quick else 16
    if options.gpu:
        with tempfile.TemporaryDirectory() as name:
            checkpoint = random_checkpoint(Path(name), quick=False, side=448, gpu=True)
        print(json.dumps({"comparisons": count, "judge": speaking(TransformersBackend(checkpoint, "random"), count, exact=False)}))
        return
    backend = TransformersBackend.load(str(NANO))
    print(json.dumps({"comparisons": count, "judge": speaking(backend, count), "product": whole(backend, count)}))


def speaking(backend: TransformersBackend, count: int, exact: bool = True) -> dict[str, float]:
    """First turns over frames in memory: eight pictures, one reply each. `exact`: both ways must say the same words."""
    asked = [
        [
            Message(
                "user", (*(Image(seen(8 * n + k, 448, 448, Side(1 + k // 4))) for k in range(8)), Text("Compare the two videos."))
            )
        ]
        for n in range(count)
    ]
    sampling = Sampling(max_new_tokens=300)

    def together() -> list[tuple[int, ...]]:
        questions = [Question(backend.open(), messages, sampling) for messages in asked]
        ends = {n: said.tokens for n, said in backend.stream_together(questions) if isinstance(said, Completion)}
        return [ends[n] for n in range(count)]

    def alone() -> list[tuple[int, ...]]:
        ends = [list(backend.open().stream(messages, sampling))[-1] for messages in asked]
        return [end.tokens for end in ends if isinstance(end, Completion)]

    backend.open().measure(asked[0])
    return _compared("judge alone", backend, alone, together, exact)


def whole(backend: TransformersBackend, count: int) -> dict[str, float]:
    """Comparisons from files to verdicts."""
    with tempfile.TemporaryDirectory() as name:
        videos = [write_clip(Path(name) / f"{n}.mp4", 48, 224, 224, hue=10 * (n % 9)) for n in range(count)]
        pairs = [VideoPair("A white block glides to the right.", videos[n], videos[n - 1]) for n in range(count)]

        def alone() -> list[object]:
            return [event.verdict for pair in pairs for event in judge(pair, backend) if isinstance(event, Finished)]

        def together() -> list[object]:
            ends = {n: event.verdict for n, event in judge_many(pairs, backend, live=count) if isinstance(event, Finished)}
            return [ends[n] for n in range(count)]

        return _compared("whole product", backend, alone, together)


def _compared(
    name: str, backend: TransformersBackend, alone: Callable[[], object], together: Callable[[], object], exact: bool = True
) -> dict[str, float]:
    spent = []
    results = []
    for way in (alone, together):
        backend.close()
        wall, worked = time.perf_counter(), _processor()
        results.append(way())
        spent.append((time.perf_counter() - wall, _processor() - worked))
    assert not exact or results[0] == results[1], "a batch says what each says alone"
    found = {
        "alone_s": round(spent[0][0], 2), "together_s": round(spent[1][0], 2), "times_as_fast": round(spent[0][0] / spent[1][0], 2),
        "times_less_processor_time": round(spent[0][1] / spent[1][1], 2),
    }  # fmt: skip
    print(f"{name}: {found}", flush=True)
    return found


def _processor() -> float:
    """Seconds of this process and of all that have ended under it."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
