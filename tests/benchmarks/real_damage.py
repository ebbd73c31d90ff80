"""python -m tests.benchmarks.real_damage [--quick] [--pairs N] [--judge nano] [--clips DIR] [--seed S]

A judge on real clips of which one copy is damaged in a known way, in both orders

Takes clips that no training run has seen from DIR, or the folder that VRT_CLIPS names. Of each it writes a clean copy and one
that is damaged (blur, noise, blocks, dark, bright, bands, flicker; a freeze, a jump, jitter; faint and strong; where the first
frames show it and hidden between them) as H.264 files, and judges them in both orders, 60 pairs (8 with --quick); one pair in ten
is of two clean copies. Prints right labels, wrong ways and verdicts that stay the same when the sides are swapped, with 95 %
intervals by Wilson. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from tests.benchmarks.tools.judge_scores import Share
from tests.benchmarks.tools.options import benchmark_parser
from tests.video.support.write_clips import write
from vrthinker_core import Settings, VideoPair, judge, open_backend
from vrthinker_core.backends import Backend
from vrthinker_core.drawn.faults import (
    FRAMES,
    MOTION_FAULTS,
    PICTURE_FAULTS,
    MotionFault,
    PictureFault,
)
from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.types.events import add_event

CLIPS = ("pair*.mp4", "cv_horse.mp4", "cv_kitten.mp4", "sk_bikes.mp4", "vs_video1.mp4")
"""Of VRT_CLIPS: moving scenes."""
PROMPT = "A clip of a real scene."
SIDE = 480  # Pixels of a written clip's longer side at most
LEAST_CHANGE = 4.0  # Display levels by which the ends of a freeze must differ, to be seen at all
PICTURE_WINDOWS = {"shown": range(FRAMES), "hidden": range(53, 76)}
MOTION_WINDOWS = {"shown": range(40, 90), "hidden": range(52, 77)}
STRENGTHS = {"faint": 0.2, "strong": 0.9}
DIMENSIONS = ("VQ", "MQ")
SWAPPED = "swapped the same"
LEFT_OUT = "left out: nothing moves there"


@dataclass(frozen=True)
class Damage:
    """What is done to one copy of a clip: a fault of the picture, one of the motion, or none."""

    words: tuple[str, ...]  # Kind, strength and place, for the counts
    dimension: str = ""  # VQ or MQ
    picture: PictureFault | None = None
    motion: MotionFault | None = None

    def frames(self, clean: Sequence[Pixels]) -> Iterator[Pixels]:
        """The frames of the damaged copy."""
        for index in range(FRAMES):
            picture = clean[index]
            if self.motion is not None:
                time, _ = self.motion.time_and_offset(index)
                picture = _shifted(clean[round(time * (FRAMES - 1))], *self.motion.shift(index))
            yield self.picture.apply(picture, index) if self.picture else picture


@dataclass
class Tally:
    """Right answers, wrong ways and the like, as counts of (yes, all)."""

    counts: dict[str, list[bool]] = field(default_factory=dict)

    def add(self, name: str, yes: bool) -> None:
        """One more case."""
        self.counts.setdefault(name, []).append(yes)

    def shares(self) -> dict[str, dict[str, Any]]:
        """For each name its share, how many there were, and its 95 % interval."""
        return {
            name: _share(answers, 1 if name == SWAPPED else 2)
            for name, answers in sorted(self.counts.items())
        }


def _share(answers: Sequence[bool], orders: int) -> dict[str, Any]:
    """Both orders of a case mostly have the same answer: an interval of as many cases as answers would be too narrow."""
    below, above = Share(sum(answers) / orders, len(answers) / orders).interval
    interval = (round(below, 3), round(above, 3))
    return {"share": round(float(np.mean(answers)), 3), "of": len(answers), "interval": interval}


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "8 pairs")
    parser.add_argument("--pairs", type=int, help="60, with --quick 8; two orders of each case")
    parser.add_argument("--judge", default="nano", help="as app.py takes it: hf:DIR")
    given = Path(os.environ.get("VRT_CLIPS", "."))
    parser.add_argument("--clips", type=Path, default=given, help="a folder of real videos")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    pairs = options.pairs or (8 if options.quick else 60)
    clips = sorted(path for pattern in CLIPS for path in options.clips.glob(pattern))
    if not clips:
        raise SystemExit(
            f"{options.clips} holds none of the clips that are needed ({', '.join(CLIPS)}): name their folder with --clips."
        )
    with tempfile.TemporaryDirectory() as folder:
        backend = open_backend(options.judge)
        print(json.dumps(measure(clips, backend, pairs, options.seed, Path(folder))))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    vq, mq, same = (result["shares"][name] for name in ("VQ", "MQ", SWAPPED))
    return (
        f"{result['pairs']} pairs of {result['clips']} real clips: VQ right for {vq['share']} of {vq['of']} with damage to the "
        f"picture, MQ for {mq['share']} of {mq['of']} with damage to the motion; "
        f"verdicts stay the same for {same['share']} of {same['of']} when the sides are swapped"
    )


def measure(
    clips: Sequence[Path], backend: Backend, pairs: int, seed: int, folder: Path
) -> dict[str, Any]:
    """Judge `pairs` pairs, two orders of each case; returns shares with their intervals."""
    tally, stops, used = Tally(), Counter[str](), set[str]()
    for number, (clip, damage) in enumerate(draw_cases(clips, pairs // 2, seed)):
        frames = read_clip(clip)
        if (
            damage.motion
            and damage.motion.kind == "frozen"
            and not _moves(frames, damage.motion.window)
        ):
            stops[LEFT_OUT] += 2
            continue
        used.add(clip.name)
        clean, damaged = folder / f"{number}_clean.mp4", folder / f"{number}_damaged.mp4"
        write_frames(clean, frames)
        write_frames(damaged, damage.frames(frames))
        labels = [
            _labels(VideoPair(PROMPT, *files), backend, stops)
            for files in ((clean, damaged), (damaged, clean))
        ]
        print(clip.name, *damage.words, *labels, flush=True)
        _count(tally, damage, labels)
        clean.unlink()
        damaged.unlink()
    shares = tally.shares()
    for name, share in shares.items():
        print(f"{name}: {share['share']} of {share['of']}, 95 % {share['interval']}")
    return {
        "pairs": sum(stops[stop] for stop in stops if "left out" not in stop),
        "clips": len(used),
        "shares": shares,
        "stops": stops,
    }


def draw_cases(clips: Sequence[Path], count: int, seed: int) -> list[tuple[Path, Damage]]:
    """Clips with what is done to them: of ten cases five have a damaged picture, four a damaged motion, one none."""
    rng = np.random.default_rng(seed)
    strengths = list(STRENGTHS.items())
    pictures = [
        Damage((kind, faint, place), "VQ", picture=PictureFault(kind, window, strength, 5))
        for kind, (faint, strength), (place, window) in product(
            PICTURE_FAULTS, strengths, PICTURE_WINDOWS.items()
        )
    ]
    motions = [
        Damage(
            (kind, faint, place),
            "MQ",
            motion=MotionFault(
                kind, window, 0.16 + 0.14 * strength, 5, 0.5 + strength / 2, 0.0, 0.4
            ),
        )
        for kind, (faint, strength), (place, window) in product(
            MOTION_FAULTS, strengths, MOTION_WINDOWS.items()
        )
    ]
    pools = {0: pictures, 1: motions, 2: [Damage(("clean",))]}
    orders = {kind: rng.permutation(len(pool)) for kind, pool in pools.items()}
    kinds = [(0, 1, 0, 1, 0, 1, 0, 1, 0, 2)[number % 10] for number in range(count)]
    taken: Counter[int] = Counter()
    cases = []
    for number, kind in enumerate(kinds):
        pool, order = pools[kind], orders[kind]
        cases.append((clips[(number * 7) % len(clips)], pool[order[taken[kind] % len(pool)]]))
        taken[kind] += 1
    return cases


def read_clip(path: Path) -> list[Pixels]:
    """FRAMES frames, evenly spread over a clip, as a `paired` judge counts them, at most SIDE pixels long."""
    with av.open(str(path)) as video:
        frames = [
            np.asarray(_fit(frame.to_ndarray(format="rgb24")), np.uint8)
            for frame in video.decode(video=0)
        ]
    return [
        frames[min(int(index / FRAMES * len(frames)), len(frames) - 1)] for index in range(FRAMES)
    ]


def write_frames(path: Path, frames: Sequence[Pixels] | Iterator[Pixels]) -> None:
    """Frames as an H.264 file, 24 a second."""
    pictures = list(frames)
    height, width = pictures[0].shape[:2]
    how = {"size": (width, height), "rate": 24, "gop": 250}
    how |= {"options": {"crf": "18", "preset": "veryfast"}}
    write(path, len(pictures), pictures=list(map(np.ascontiguousarray, pictures)), **how)


def _count(tally: Tally, damage: Damage, labels: Sequence[dict[str, int]]) -> None:
    """Both orders of one case."""
    for clean_side, found in zip((1, 2), labels, strict=True):
        for dimension in DIMENSIONS:
            truth = clean_side if dimension == damage.dimension else 0
            right = found.get(dimension) == truth
            if truth:
                for name in (dimension, *(f"{dimension} {word}" for word in damage.words)):
                    tally.add(name, right)
                tally.add(f"{dimension} wrong way", found.get(dimension) == 3 - clean_side)
            else:
                tally.add(f"{dimension} tie where it is one", right)
    first, second = labels
    mirrored = {name: (0, 2, 1)[label] for name, label in second.items()}
    tally.add(
        SWAPPED,
        bool(first) and all(first.get(name) == mirrored.get(name) for name in (*DIMENSIONS, "OA")),
    )


def _labels(pair: VideoPair, backend: Backend, stops: Counter[str]) -> dict[str, int]:
    """The labels of the last reply that gives any: on real clips those of the built-in judge make no verdict."""
    trace = reduce(add_event, judge(pair, backend, Settings()), None)
    stops[trace.finished.stop.value] += 1
    return trace.last_labels.labels if trace.last_labels else {}


def _moves(frames: Sequence[Pixels], window: range) -> bool:
    return (
        float(np.abs(frames[window.start].astype(float) - frames[window.stop - 1]).mean())
        >= LEAST_CHANGE
    )


def _fit(picture: Any) -> Any:
    height, width = picture.shape[:2]
    factor = min(1.0, SIDE / max(height, width))
    size = (2 * round(width * factor / 2), 2 * round(height * factor / 2))
    return cv2.resize(picture, size, interpolation=cv2.INTER_AREA)


def _shifted(picture: Pixels, right: float, down: float) -> Pixels:
    height, width = picture.shape[:2]
    matrix = np.array([[1, 0, right * width], [0, 1, down * height]], np.float32)
    return np.asarray(
        cv2.warpAffine(picture, matrix, (width, height), borderMode=cv2.BORDER_REFLECT), np.uint8
    )


if __name__ == "__main__":
    main()
