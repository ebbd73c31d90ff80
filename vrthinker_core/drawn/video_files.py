"""Drawn pairs as files: H.264 videos, and a table of their prompts and true labels.

A folder of pairs holds `pair_0000_a.mp4`, `pair_0000_b.mp4`, … and `pairs.csv`. A video is there whole or not at all, and its
comment names what it was drawn from: so a stopped run goes on where it stopped. It ends with the mark of `video/drawn_mark.py`.
"""

import csv
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import av.error
import numpy as np
from av.video.reformatter import ColorRange, Colorspace

from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.photographs import photo_paths
from vrthinker_core.drawn.world import SIMPLE, DrawnPair, Scene, SceneRenderer, World, draw_pair
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import atomic_path, remove_parts
from vrthinker_core.types import Side
from vrthinker_core.video.timeline import UNSEALED, PacketDigest, sealed, unmarked

COLUMNS = (
    "video1",
    "video2",
    "prompt",
    "TA",
    "VQ",
    "MQ",
    "OA",
)  # Of pairs.csv; the paths of the videos are relative to its folder
FRAME_RATE = 24  # Frames a second
SUPERSAMPLE = 4  # Samples per side of a pixel at the edges of solids
MIN_SIZE, MAX_SIZE = 112, 1080  # Pixels per side of a video; only even numbers
PAIRS_CSV = "pairs.csv"
OWN_FILES = re.compile(
    r"(pairs\.csv|pair_\d{4,}_[ab]\.mp4)"
)  # Names that a folder of pairs may hold

ProgressCallback = Callable[
    [int, int], None
]  # Called with (videos written, videos in all), first before any is written


@dataclass(frozen=True, slots=True)
class VideoSpec:
    """One video to write."""

    seed: int  # Of the run
    number: int  # Of the pair, from 0
    side: Side
    size: int
    world: World = SIMPLE

    @property
    def name(self) -> str:
        """The file name; it says nothing about the labels."""
        return f"pair_{self.number:04d}_{'ab'[self.side - 1]}.mp4"

    @property
    def comment(self) -> str:
        """The comment in the file: what the video was drawn from."""
        world = hashlib.sha256(repr(self.world).encode()).hexdigest()[:8]
        return f"drawn world {world}: seed {self.seed}, pair {self.number}, video {self.side.value}, {self.size} px"


def write_pairs(
    count: int,
    seed: int,
    out: Path,
    size: int = 448,
    progress: ProgressCallback | None = None,
    world: World = SIMPLE,
) -> Path:
    """Write `count` drawn pairs of a seed into the folder `out`, as videos of `size` x `size` pixels; gives the path of pairs.csv.

    Videos of the same seed, size and world that are already there stay, so a stopped run goes on. Raises BadInput for a number
    out of range, for `world` whose folder holds no photograph, or where `out` holds something else or cannot be written.
    """
    _check(count, seed, size)
    if world.photos is not None:
        photo_paths(world.photos)
    specs = [VideoSpec(seed, number, side, size, world) for number in range(count) for side in Side]
    try:
        _prepare_folder(out)
        missing = [spec for spec in specs if not _already_written(spec, out)]
        kept = len(specs) - len(missing)
        if progress:
            progress(kept, len(specs))
        for done, spec in enumerate(missing, start=kept + 1):
            write_video(
                pair_of(seed, spec.number, world).scenes[spec.side],
                out / spec.name,
                size,
                comment=spec.comment,
            )
            if progress:
                progress(done, len(specs))
        return _write_csv(out, [pair_of(seed, number, world) for number in range(count)])
    except (OSError, av.error.FFmpegError) as problem:
        raise BadInput(
            f"The pairs cannot be written to {out}: {getattr(problem, 'strerror', None) or problem}."
        ) from None


def write_video(
    scene: Scene, path: Path, size: int = 448, *, supersample: int = SUPERSAMPLE, comment: str = ""
) -> None:
    """Write a scene as an H.264 video, 128 frames at 24 a second; a file of that name is replaced at the end. Raises OSError."""
    with atomic_path(path) as part:
        _encode(SceneRenderer(scene, size, supersample), part, size, comment)


def pair_of(seed: int, number: int, world: World = SIMPLE) -> DrawnPair:
    """Pair `number` of a run with `seed`; runs with other seeds have other pairs."""
    return draw_pair(
        int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0]), world
    )


def _check(count: int, seed: int, size: int) -> None:
    if count < 1:
        raise BadInput(f"There must be at least one pair to write, not {count}.")
    if seed < 0:
        raise BadInput(f"A seed is 0 or larger, not {seed}.")
    if size % 2 or not MIN_SIZE <= size <= MAX_SIZE:
        raise BadInput(
            f"A video's side is an even number of pixels from {MIN_SIZE} to {MAX_SIZE}, not {size}."
        )


def _prepare_folder(out: Path) -> None:
    """Make the folder. Raises BadInput where it holds anything but drawn pairs."""
    out.mkdir(parents=True, exist_ok=True)
    remove_parts(out)
    names = sorted(path.name for path in out.iterdir())
    foreign = [name for name in names if not OWN_FILES.fullmatch(name)]
    if PAIRS_CSV in names and not any(name.endswith(".mp4") for name in names):
        foreign = [PAIRS_CSV]
    if foreign:
        raise BadInput(
            f"{out} holds something else ({foreign[0]}): name an empty folder for the pairs."
        )


def _already_written(spec: VideoSpec, out: Path) -> bool:
    """Whether the video is already written. Raises BadInput for a video of another seed or size, which is never replaced."""
    path = out / spec.name
    if not path.exists():
        return False
    try:
        with av.open(str(path)) as video:
            comment = video.metadata.get("comment", "")
    except av.error.InvalidDataError:
        return False
    drawn_from = unmarked(comment)
    if spec.comment not in (drawn_from, comment):
        raise BadInput(
            f"{out} holds videos of another seed or size ({spec.name}): name an empty folder for the pairs."
        )
    return drawn_from is not None  # Earlier versions wrote no mark


def _encode(renderer: SceneRenderer, path: Path, size: int, comment: str) -> None:
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as video:
        video.metadata["comment"] = "; ".join(filter(None, (comment, UNSEALED)))
        stream = video.add_stream(
            "libx264", rate=FRAME_RATE, options={"crf": "18", "preset": "medium"}
        )
        stream.width = stream.height = size
        stream.pix_fmt = "yuv420p"
        # Untagged, players guess the matrix by the size of the picture.
        stream.codec_context.colorspace = Colorspace.ITU601
        stream.codec_context.color_range = ColorRange.MPEG
        # With more threads, the bytes would depend on the machine.
        stream.codec_context.thread_count = 1
        for index in range(FRAMES):
            picture = av.VideoFrame.from_ndarray(renderer.frame(index), format="rgb24")
            frame = picture.reformat(
                format="yuv420p", dst_colorspace=Colorspace.ITU601, dst_color_range=ColorRange.MPEG
            )
            video.mux(stream.encode(frame))
        video.mux(stream.encode())
    _seal(path)


def _seal(path: Path) -> None:
    """Put the digest of the packets into the mark."""
    with av.open(str(path)) as video:
        digest = PacketDigest(video.metadata)
        for packet in video.demux(video=0):
            digest.add(memoryview(packet))
    path.write_bytes(
        path.read_bytes().replace(UNSEALED.encode(), sealed(digest.hexdigest).encode())
    )


def _write_csv(out: Path, pairs: Sequence[DrawnPair]) -> Path:
    path = out / PAIRS_CSV
    with atomic_path(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        for number, pair in enumerate(pairs):
            names = [VideoSpec(0, number, side, 0).name for side in Side]
            rows.writerow(
                [*names, pair.prompt, *(pair.verdict.labels[column] for column in COLUMNS[3:])]
            )
    return path
