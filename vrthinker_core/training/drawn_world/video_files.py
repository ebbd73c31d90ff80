"""Drawn pairs as files: H.264 films and the list of what is true about them.

A folder of pairs holds `pair_0000_a.mp4`, `pair_0000_b.mp4`, … and `pairs.csv`. A film is written aside and renamed when it is
whole, and says in its own comment what it was drawn from: so a stopped run goes on where it stopped.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av
import av.error
import numpy as np
from av.video.reformatter import ColorRange, Colorspace

from vrthinker_core.errors import BadInput
from vrthinker_core.training.drawn_world.faults import FRAMES
from vrthinker_core.training.drawn_world.scenes import DrawnPair, Scene, SceneRenderer, draw_pair
from vrthinker_core.types import Side

COLUMNS = ("video1", "video2", "prompt", "TA", "VQ", "MQ", "OA")
"""Of pairs.csv; the videos' paths are relative to it."""
RATE = 24
"""Frames a second."""
FINE = 4
"""Samples per side of a pixel where things end."""
SMALLEST, LARGEST = 112, 1080
"""Sides of a film in pixels, even ones only."""
PAIRS_CSV = "pairs.csv"
OWN_FILES = re.compile(r"(pairs\.csv|pair_\d{4,}_[ab]\.mp4)(\.part)?")
"""Names that a folder of pairs may hold."""

Progress = Callable[[int, int], None]
"""Told (films there, films in all), first before any is written."""


@dataclass(frozen=True, slots=True)
class VideoSpec:
    """One film to be written."""

    seed: int
    """Of the whole run."""
    number: int
    """Of the pair, from 0."""
    side: Side
    size: int

    @property
    def name(self) -> str:
        """Its file; it says nothing about the labels."""
        return f"pair_{self.number:04d}_{'ab'[self.side - 1]}.mp4"

    @property
    def comment(self) -> str:
        """What the film says about itself."""
        return f"drawn world 1: seed {self.seed}, pair {self.number}, video {self.side.value}, {self.size} px"


def write_pairs(count: int, seed: int, out: Path, size: int = 448, progress: Progress | None = None) -> Path:
    """Write `count` drawn pairs of a seed into the folder `out`, as films of `size` x `size` pixels; gives the path of pairs.csv.

    Films of the same seed and size that are already there stay, so a stopped run goes on.

    Raises:
        BadInput: a number is out of range, or `out` holds something else or cannot be written.
    """
    _check(count, seed, size)
    takes = [VideoSpec(seed, number, side, size) for number in range(count) for side in Side]
    try:
        _prepare_folder(out)
        missing = [take for take in takes if not _already_written(take, out)]
        there = len(takes) - len(missing)
        if progress:
            progress(there, len(takes))
        for done, take in enumerate(missing, start=there + 1):
            _write_one(take, out)
            if progress:
                progress(done, len(takes))
        return _write_list(count, seed, out)
    except (OSError, av.error.FFmpegError) as problem:
        raise BadInput(f"The pairs cannot be written to {out}: {getattr(problem, 'strerror', None) or problem}.") from None


def write_video(scene: Scene, path: Path, size: int = 448, *, fine: int = FINE, comment: str = "") -> None:
    """Write a scene as an H.264 film, 128 frames at 24 a second; an older file of that name is replaced once the film is whole.

    Raises:
        OSError: the file cannot be written.
    """
    aside = path.with_name(path.name + ".part")
    try:
        _encode(SceneRenderer(scene, size, fine), aside, size, comment)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def pair_of(seed: int, number: int) -> DrawnPair:
    """Pair `number` of a run with `seed`; runs with other seeds have other pairs."""
    return draw_pair(int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0]))


def _check(count: int, seed: int, size: int) -> None:
    if count < 1:
        raise BadInput(f"There must be at least one pair to write, not {count}.")
    if seed < 0:
        raise BadInput(f"A seed is 0 or larger, not {seed}.")
    if size % 2 or not SMALLEST <= size <= LARGEST:
        raise BadInput(f"A film's side is an even number of pixels from {SMALLEST} to {LARGEST}, not {size}.")


def _prepare_folder(out: Path) -> None:
    """Make the folder, or see that it holds nothing but drawn pairs."""
    out.mkdir(parents=True, exist_ok=True)
    names = sorted(path.name for path in out.iterdir())
    strange = [name for name in names if not OWN_FILES.fullmatch(name)]
    if PAIRS_CSV in names and not any(name.endswith(".mp4") for name in names):
        strange = [PAIRS_CSV]
    if strange:
        raise BadInput(f"{out} holds something else ({strange[0]}): name an empty folder for the pairs.")


def _already_written(take: VideoSpec, out: Path) -> bool:
    """The film is already written; a film of another seed or size is never replaced."""
    path = out / take.name
    if not path.exists():
        return False
    try:
        with av.open(str(path)) as film:
            comment = film.metadata.get("comment", "")
    except av.error.InvalidDataError:
        return False
    if comment != take.comment:
        raise BadInput(f"{out} holds films of another seed or size ({take.name}): name an empty folder for the pairs.")
    return True


def _write_one(take: VideoSpec, out: Path) -> None:
    scene = pair_of(take.seed, take.number).scenes[take.side]
    write_video(scene, out / take.name, take.size, comment=take.comment)


def _encode(shot: SceneRenderer, path: Path, size: int, comment: str) -> None:
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as film:
        film.metadata["comment"] = comment
        stream = film.add_stream("libx264", rate=RATE, options={"crf": "18", "preset": "medium"})
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        # Untagged, players guess the matrix by the size of the picture.
        stream.codec_context.colorspace = Colorspace.ITU601
        stream.codec_context.color_range = ColorRange.MPEG
        # With more threads, the bytes would depend on the machine.
        stream.codec_context.thread_count = 1
        for index in range(FRAMES):
            picture = av.VideoFrame.from_ndarray(shot.frame(index), format="rgb24")
            frame = picture.reformat(format="yuv420p", dst_colorspace=Colorspace.ITU601, dst_color_range=ColorRange.MPEG)
            film.mux(stream.encode(frame))
        film.mux(stream.encode())


def _write_list(count: int, seed: int, out: Path) -> Path:
    path, aside = out / PAIRS_CSV, out / (PAIRS_CSV + ".part")
    with aside.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for number in range(count):
            pair = pair_of(seed, number)
            names = [VideoSpec(seed, number, side, 0).name for side in Side]
            rows.writerow([*names, pair.prompt, *(pair.verdict.labels[column] for column in COLUMNS[3:])])
    aside.replace(path)
    return path
