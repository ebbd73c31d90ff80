"""python -m tests.benchmarks.batch [--quick] [--gpu]

16 comparisons by the built-in judge: one after another, and all at once.

Each way is taken twice (once with --quick), in the order ABBA, so that a machine which grows slower or faster meanwhile favours
neither. First one reply each over frames that are decoded already; then whole comparisons, from video files to verdicts. Prints
seconds and the ratios, in wall time and in processor time. With `--gpu` a random model of the 7B's shape generates, over decoded
frames alone. The last line is JSON; its ratio is that of whole comparisons, in processor time, since wall time hangs on what the
other processor does (that of replies in wall time on a GPU).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.backends.support.random_model import noise_frame
from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.phase_timer import processor_seconds
from tests.benchmarks.tools.random_models import random_checkpoint
from tests.support.small_clips import write_clip
from vrthinker_core import TurnEnded, VideoPair, judge, judge_many
from vrthinker_core.backends import NANO
from vrthinker_core.backends.base import GenerationRequest
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types import Side
from vrthinker_core.types.events import Event
from vrthinker_core.types.messages import Completion, Image, Message, Sampling, Text

COUNT = 16
ORDER = ("alone", "together", "together", "alone")

Figures = dict[str, float]


def main() -> None:
    """Run the benchmark."""
    options = benchmark_parser(
        __doc__, "each way once", "a random model of the 7B's shape on the GPU"
    ).parse_args()
    order = ORDER[:2] if options.quick else ORDER
    if options.gpu:
        with tempfile.TemporaryDirectory() as name:
            checkpoint = random_checkpoint(Path(name), quick=False, side=448, gpu=True)
        replies = compare_replies(TransformersBackend(checkpoint, "random"), order, exact=False)
        result = {"times_as_fast": replies["times_as_fast"]}
    else:
        backend = TransformersBackend.load(str(NANO))
        replies, runs = compare_replies(backend, order), compare_runs(backend, order)
        ratio = "times_less_processor_time"
        result = {ratio: runs[ratio], "whole_comparisons": runs}
    print(json.dumps({"comparisons": COUNT, **result, "replies": replies}))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    count = result["comparisons"]
    if (ratio := result.get("times_less_processor_time")) is None:
        return f"{count} replies over decoded frames at once: {result['times_as_fast']:.2f} times as fast as one at a time"
    return f"{count} comparisons from files to verdicts at once: {ratio:.2f} times less processor time than one at a time"


def compare_replies(
    backend: TransformersBackend, order: Sequence[str], exact: bool = True
) -> Figures:
    """One reply each over eight frames in memory. `exact`: both ways must give the same tokens."""
    prompts = [_prompt(number) for number in range(COUNT)]
    sampling = Sampling(max_new_tokens=300)

    def together() -> list[tuple[int, ...]]:
        opened = [backend.open_conversation() for _ in prompts]
        both = zip(opened, prompts, strict=True)
        requests = [GenerationRequest(each, messages, sampling) for each, messages in both]
        items = backend.stream_batch(requests)
        replies = {n: item.tokens for n, item in items if isinstance(item, Completion)}
        return [replies[n] for n in range(COUNT)]

    def alone() -> list[tuple[int, ...]]:
        streams = (backend.open_conversation().stream(each, sampling) for each in prompts)
        replies = [list(stream)[-1] for stream in streams]
        return [reply.tokens for reply in replies if isinstance(reply, Completion)]

    backend.open_conversation().count_tokens(prompts[0])
    return _measure("replies", backend, order, {"alone": alone, "together": together}, exact)


def compare_runs(backend: TransformersBackend, order: Sequence[str]) -> Figures:
    """Comparisons from files to verdicts."""
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / f"{n}.mp4" for n in range(COUNT)]
        videos = [write_clip(p, 48, 224, 224, hue=10 * (n % 9)) for n, p in enumerate(paths)]
        prompt = "A white block glides to the right."
        pairs = [VideoPair(prompt, videos[n], videos[n - 1]) for n in range(COUNT)]

        def replies(events: Iterable[tuple[int, Event]]) -> list[list[str]]:
            """These clips are not drawn, so the built-in judge gives no verdict on them."""
            found: list[list[str]] = [[] for _ in pairs]
            for number, event in events:
                if isinstance(event, TurnEnded):
                    found[number].append(event.turn.completion.text)
            return found

        def alone() -> list[list[str]]:
            return replies((n, each) for n in range(COUNT) for each in judge(pairs[n], backend))

        def together() -> list[list[str]]:
            return replies(judge_many(pairs, backend, live=COUNT))

        return _measure("whole comparisons", backend, order, {"alone": alone, "together": together})


def _prompt(number: int) -> list[Message]:
    frames = [Image(noise_frame(8 * number + k, 448, 448, Side(1 + k // 4))) for k in range(8)]
    return [Message("user", (*frames, Text("Compare the two videos.")))]


def _measure(
    name: str,
    backend: TransformersBackend,
    order: Sequence[str],
    ways: dict[str, Callable[[], object]],
    exact: bool = True,
) -> Figures:
    wall, processor = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    results = list[object]()
    for way in order:
        backend.close()
        started = time.perf_counter()
        processor[way] += processor_seconds(lambda way=way: results.append(ways[way]()))
        wall[way] += time.perf_counter() - started
    same = all(result == results[0] for result in results)
    assert same or not exact, "a batch gives what each comparison gives alone"
    figures = {f"{way}_s": round(2 * seconds / len(order), 2) for way, seconds in wall.items()}
    figures["times_as_fast"] = round(wall["alone"] / wall["together"], 2)
    figures["times_less_processor_time"] = round(processor["alone"] / processor["together"], 2)
    print(f"{name}: {figures}", flush=True)
    return figures


if __name__ == "__main__":
    main()
