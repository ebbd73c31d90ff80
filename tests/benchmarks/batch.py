"""python -m tests.benchmarks.batch [--quick] [--gpu]

The built-in judge and 16 comparisons: one after another and all together, each way twice (once with --quick), so that a machine
which grows slower or faster on the way favours neither. First one reply each over frames that are decoded already; then whole
comparisons, from video files to verdicts. Prints seconds and the ratios, in wall time and in processor time. With `--gpu` a random
7B speaks, over decoded frames alone. The last line is JSON; its `times_as_fast` is that of whole comparisons (of replies on a GPU).
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.backends.support.random_model import noise_frame
from tests.benchmarks.tools.random_models import random_checkpoint
from tests.support.small_clips import write_clip
from vrthinker_core import Finished, VideoPair, judge, judge_many
from vrthinker_core.backends import NANO
from vrthinker_core.backends.base import GenerationRequest
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.types import Side
from vrthinker_core.types.messages import Completion, Image, Message, Sampling, Text

ORDER = ("alone", "together", "together", "alone")


def main() -> None:
    """Run the benchmark."""
    options = _options()
    count = 16
    ways = ORDER[:2] if options.quick else ORDER
    if options.gpu:
        with tempfile.TemporaryDirectory() as name:
            checkpoint = random_checkpoint(Path(name), quick=False, side=448, gpu=True)
        replies = speaking(TransformersBackend(checkpoint, "random"), count, ways, exact=False)
        print(json.dumps({"comparisons": count, "times_as_fast": replies["times_as_fast"], "replies": replies}))
        return
    backend = TransformersBackend.load(str(NANO))
    replies, wholes = speaking(backend, count, ways), whole(backend, count, ways)
    found = {"comparisons": count, "times_as_fast": wholes["times_as_fast"], "whole_comparisons": wholes, "replies": replies}
    print(json.dumps(found))


def speaking(backend: TransformersBackend, count: int, order: Sequence[str] = ORDER, exact: bool = True) -> dict[str, float]:
    """First turns over frames in memory: eight pictures, one reply each. `exact`: both ways must say the same words."""
    asked = [
        [
            Message(
                "user", (*(Image(noise_frame(8 * n + k, 448, 448, Side(1 + k // 4))) for k in range(8)), Text("Compare the two videos."))
            )
        ]
        for n in range(count)
    ]
    sampling = Sampling(max_new_tokens=300)

    def together() -> list[tuple[int, ...]]:
        questions = [GenerationRequest(backend.open_conversation(), messages, sampling) for messages in asked]
        ends = {n: said.tokens for n, said in backend.stream_batch(questions) if isinstance(said, Completion)}
        return [ends[n] for n in range(count)]

    def alone() -> list[tuple[int, ...]]:
        ends = [list(backend.open_conversation().stream(messages, sampling))[-1] for messages in asked]
        return [end.tokens for end in ends if isinstance(end, Completion)]

    backend.open_conversation().count_tokens(asked[0])
    return _compared("replies", backend, order, {"alone": alone, "together": together}, exact)


def whole(backend: TransformersBackend, count: int, order: Sequence[str] = ORDER) -> dict[str, float]:
    """Comparisons from files to verdicts."""
    with tempfile.TemporaryDirectory() as name:
        videos = [write_clip(Path(name) / f"{n}.mp4", 48, 224, 224, hue=10 * (n % 9)) for n in range(count)]
        pairs = [VideoPair("A white block glides to the right.", videos[n], videos[n - 1]) for n in range(count)]

        def alone() -> list[object]:
            return [event.verdict for pair in pairs for event in judge(pair, backend) if isinstance(event, Finished)]

        def together() -> list[object]:
            ends = {n: event.verdict for n, event in judge_many(pairs, backend, live=count) if isinstance(event, Finished)}
            return [ends[n] for n in range(count)]

        return _compared("whole comparisons", backend, order, {"alone": alone, "together": together})


def _compared(
    name: str, backend: TransformersBackend, order: Sequence[str], ways: dict[str, Callable[[], object]], exact: bool = True
) -> dict[str, float]:
    wall, worked = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    results = []
    for way in order:
        backend.close()
        began, before = time.perf_counter(), _processor()
        results.append(ways[way]())
        wall[way] += time.perf_counter() - began
        worked[way] += _processor() - before
    assert not exact or all(result == results[0] for result in results), "a batch says what each says alone"
    found = {f"{way}_s": round(2 * seconds / len(order), 2) for way, seconds in wall.items()}
    found["times_as_fast"] = round(wall["alone"] / wall["together"], 2)
    found["times_less_processor_time"] = round(worked["alone"] / worked["together"], 2)
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
