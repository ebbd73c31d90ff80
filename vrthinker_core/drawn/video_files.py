"""Drawn pairs as files: H.264 videos, and a table of labels.

A folder holds `pair_0000_a.mp4`, `pair_0000_b.mp4`, … and `pairs.csv`. A video is complete or
missing. Its comment names what it was drawn from and ends with the mark of `video/timeline.py`.
"""

import csv
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import av
import av.error
from av.video.reformatter import ColorRange, Colorspace

from vrthinker_core.drawn.renderer import SceneRenderer
from vrthinker_core.drawn.world import FRAMES, Scene, pair_of
from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.storage import atomic_path, remove_parts
from vrthinker_core.system import cpu_count
from vrthinker_core.types.messages import ANSWER_ORDER
from vrthinker_core.video.timeline import MARK, UNSEALED, PacketDigest, unmarked

FRAME_RATE = 24  # Frames a second
WORLD = "506819e5"  # What comments call this world; earlier versions drew others, too


def write_pairs(
    count: int,
    seed: int,
    out: Path,
    size: int = 448,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Path:
    """Write `count` drawn pairs of a seed; return the path of pairs.csv.

    Videos have `size` x `size` pixels. Existing ones of the same seed and size stay, so a stopped
    run goes on. `progress` gets the numbers of videos written and of all, first before any is
    written. Raises `BadInput` for a number out of range, and for a folder `out` that holds
    something else or cannot be written.
    """
    if count < 1:
        raise BadInput(f"There must be at least one pair to write, not {count}.")
    if seed < 0:
        raise BadInput(f"A seed is 0 or larger, not {seed}.")
    if size not in range(112, 1081, 2):
        raise BadInput(f"A video's side is an even number of pixels from 112 to 1080, not {size}.")
    pairs = [pair_of(seed, number) for number in range(count)]
    videos = [
        (
            scene,
            out / f"pair_{number:04d}_{'ab'[side - 1]}.mp4",  # Says nothing about the labels
            f"drawn world {WORLD}: seed {seed}, pair {number}, video {side.value}, {size} px",
        )
        for number, pair in enumerate(pairs)
        for side, scene in pair.scenes.items()
    ]
    with os_errors(f"The pairs cannot be written to {out}"):
        _prepare_folder(out)
        missing = [video for video in videos if not _holds_video(*video[1:])]
        done = len(videos) - len(missing)
        progress(done, len(videos))
        # Most of the time is spent in OpenCV, NumPy and x264, where threads run side by side
        with ThreadPoolExecutor(cpu_count()) as threads:
            # No name holds the iterator: an error in the loop drops it, which cancels the rest
            write, parts = partial(write_video, size=size), zip(*missing, strict=True)
            for number, _ in enumerate(threads.map(write, *parts), done + 1):
                progress(number, len(videos))
        path = out / "pairs.csv"
        with atomic_path(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("video1", "video2", "prompt", *ANSWER_ORDER))
            names = [video.name for _, video, _ in videos]
            for first, second, pair in zip(names[::2], names[1::2], pairs, strict=True):
                labels = map(pair.verdict.labels.get, ANSWER_ORDER)
                rows.writerow((first, second, pair.prompt, *labels))
    return path


def write_video(scene: Scene, path: Path, comment: str = "", size: int = 448) -> None:
    """Write a scene as H.264, 128 frames at 24 a second.

    Replaces a file of that name at the end. Raises `OSError`.
    """
    with atomic_path(path) as part:
        renderer = SceneRenderer(scene, size, supersample=4)
        with av.open(str(part), "w", format="mp4", options={"movflags": "+faststart"}) as video:
            video.metadata["comment"] = "; ".join(filter(None, (comment, UNSEALED)))
            quality = {"crf": "18", "preset": "medium"}
            stream = video.add_stream("libx264", rate=FRAME_RATE, options=quality)
            stream.width, stream.height, stream.pix_fmt = size, size, "yuv420p"
            # Untagged, players guess the matrix by the size of the picture.
            space, colours = Colorspace.ITU601, ColorRange.MPEG
            stream.codec_context.colorspace, stream.codec_context.color_range = space, colours
            # With more threads, the bytes would depend on the machine.
            stream.codec_context.thread_count = 1
            for index in range(FRAMES):
                picture = av.VideoFrame.from_ndarray(renderer.frame(index), format="rgb24")
                frame = picture.reformat(
                    format="yuv420p", dst_colorspace=space, dst_color_range=colours
                )
                video.mux(stream.encode(frame))
            video.mux(stream.encode())
        with av.open(str(part)) as video:
            digest = PacketDigest(video.metadata)
            for packet in video.demux(video=0):
                digest.add(memoryview(packet))
        seal = f"{MARK}{digest.hexdigest}".encode()
        part.write_bytes(part.read_bytes().replace(UNSEALED.encode(), seal))


def _prepare_folder(out: Path) -> None:
    """Make the folder; raise `BadInput` if it holds anything but drawn pairs."""
    out.mkdir(parents=True, exist_ok=True)
    remove_parts(out)
    names = sorted(path.name for path in out.iterdir())
    # A table alone is somebody else's
    own = r"pair_\d{4,}_[ab]\.mp4" + (r"|pairs\.csv" if len(names) > 1 else "")
    if other := next((name for name in names if not re.fullmatch(own, name)), ""):
        raise BadInput(f"{out} holds something else ({other}): name an empty folder for the pairs.")


def _holds_video(path: Path, comment: str) -> bool:
    """Return whether the video is whole; raise `BadInput` for another one."""
    if not path.exists():
        return False
    try:
        with av.open(str(path)) as video:
            found = video.metadata.get("comment", "")
    except av.error.InvalidDataError:
        return False
    drawn_from = unmarked(found)
    if comment not in (drawn_from, found):
        other = f"videos of another seed, size or version ({path.name})"
        raise BadInput(f"{path.parent} holds {other}: name an empty folder for the pairs.")
    return drawn_from is not None  # Earlier versions wrote no mark
