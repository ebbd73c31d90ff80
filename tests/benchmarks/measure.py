"""python -m tests.benchmarks.measure [--quick]

What `measure` tells of clips with one known fault and of clips without any, and its processor time against one plain decode.

60 faults in ten encodings; 100 clips without: 60 that only look faulty, and real ones of $VRT_CLIPS that are cut into no shots. A wrong
word is any fact that is not the known one. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np

from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.phase_timer import processor_seconds
from tests.video.support.planted_clips import CODECS, FAULTS, TRAPS, planted_clip
from tests.video.support.write_clips import write
from tests.video.test_measure import SEEN
from vrthinker_core import MeasuredFact, VideoError, VideoPair, measure
from vrthinker_core.video import DecoderPool
from vrthinker_core.video.container import THREADS


def main() -> None:
    """Run the benchmark."""
    quick = benchmark_parser(__doc__, "a quarter of the clips").parse_args().quick
    with tempfile.TemporaryDirectory() as name, DecoderPool() as pool:
        folder, numbers = Path(name), range(15 if quick else 60)
        found, wrong_beside = _faults(folder, numbers, pool)
        clean, wrong = _clean(folder, numbers, pool)
        ratios = {each: _time_ratio(folder, each, quick) for each in CODECS}
    counts = {"faults": len(numbers), "found": found, "clean": clean, "wrong": wrong}
    print(json.dumps(counts | {"wrong_beside": wrong_beside, "times_a_decode": ratios}))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    ratios = result["times_a_decode"].values()
    return (
        f"{result['found']} of {result['faults']} faults told at their time; {result['wrong']} wrong words over {result['clean']} clips "
        f"without; {min(ratios):.2f} to {max(ratios):.2f} times the processor time of a plain decode"
    )


def _faults(folder: Path, numbers: range, pool: DecoderPool) -> tuple[int, int]:
    """How many faults are told, and how many other facts."""
    found = wrong = 0
    for number in numbers:
        clip = planted_clip(folder, number, FAULTS[number % len(FAULTS)])
        facts = _told(clip.path, pool)
        right = [fact for fact in facts if clip.is_told_by(fact)]
        found, wrong = found + bool(right), wrong + len(facts) - len(right)
        if not right or len(facts) > len(right):
            print(f"{clip.path.name}, {clip.start:.2f} to {clip.end:.2f} s: {facts}")
    return found, wrong


def _clean(folder: Path, numbers: range, pool: DecoderPool) -> tuple[int, int]:
    """How many clips hold no fault, and how many facts are told of these."""
    real = sorted(Path(os.environ.get("VRT_CLIPS", os.devnull)).glob("*"))
    clips = [planted_clip(folder, each, TRAPS[each % len(TRAPS)]).path for each in numbers]
    clips += [path for path in real if path.name not in SEEN]
    count = wrong = 0
    for path in clips:
        try:
            facts = _told(path, pool)
        except VideoError:
            continue
        count, wrong = count + 1, wrong + len(facts)
        if facts:
            print(f"{path.name}: {facts}")
    return count, wrong


def _told(path: Path, pool: DecoderPool) -> list[MeasuredFact]:
    facts = measure(VideoPair("p", path, path), decoder_pool=pool).facts
    return [fact for fact in facts if fact.sides == (1,)]


def _time_ratio(folder: Path, codec: str, quick: bool) -> float:
    """Processor time of two measurements, their processes included, over that of two decodes."""
    suffix, how = CODECS[codec]
    size, rng = (854, 480) if quick else (1280, 720), np.random.default_rng(0)
    wide = np.kron(rng.integers(40, 200, (120, 400, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    noise = rng.integers(0, 12, (*size[::-1], 3), np.uint8)
    views = (wide[5 * at : 5 * at + size[1], 6 * at : 6 * at + size[0]] + noise for at in range(48))
    pictures = [*views] * 2
    path = write(
        folder / f"timed {codec}.{suffix}", 96, pictures=pictures, size=size, rate=24, **how
    )
    tiny = write(folder / "tiny.mp4", 2)
    ratios = []
    for _ in range(5):
        plain = processor_seconds(_decode, path) + processor_seconds(_decode, path)
        both = processor_seconds(_measure, path) - processor_seconds(_measure, tiny)
        ratios.append(both / plain)
    return round(median(ratios), 2)


def _measure(path: Path) -> None:
    with DecoderPool() as pool:
        _told(path, pool)


def _decode(path: Path) -> None:
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        context.thread_count, context.thread_type = THREADS, "SLICE"
        for _ in container.decode(video=0):
            pass


if __name__ == "__main__":
    main()
