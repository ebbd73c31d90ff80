"""python -m tests.benchmarks.files [FOLDER] [--quick]

Every file of a folder, 128 slots, both ways of reading: against a full sequential decode of it in a process of its own.

Without a folder: the one that VRT_CLIPS names, and files written for this: titles that are not UTF-8, key frames out of order,
damage, encryption, Motion JPEG 2000, and sequences of PNG, AVIF and WebP pictures. A file is exact when each slot gives the very
pixels of the frame it means, named when a sentence says that it is not read, or which frames are replaced, and else wrong: then the
exit status is 1. --quick asks for every eighth slot. The last line is JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.benchmarks.tools.options import benchmark_parser
from tests.video.support.hostile_clips import HOSTILE
from tests.video.support.open_clips import NATIVE, PAIRED, opened, pixels
from tests.video.support.sequential_decode import digest
from vrthinker_core.errors import VideoError
from vrthinker_core.types import ClipInfo, Frame
from vrthinker_core.types.frames import ReadMode

READ_MODES: tuple[ReadMode, ...] = ("whole", "seek")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class SlotPicture:
    """What a slot was given: which frame, and a digest of its pixels before they were turned for display."""

    index: int
    size: tuple[int, int]
    digest: str
    note: str


@dataclass(frozen=True)
class Reading:
    """One file, read in one way."""

    frames: int
    slots: dict[int, SlotPicture]
    refusal: str = ""


def main() -> None:
    """Run the sweep."""
    parser = benchmark_parser(__doc__, "every eighth slot")
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    results: Counter[str] = Counter()
    slots = range(0, 128, 8 if options.quick else 1)
    with ExitStack() as resources:
        for name, path in _files(options.folder, resources):
            readings = {mode: _read(path, mode, slots) for mode in READ_MODES}
            frames, digests = _reference(
                path, [slot for reading in readings.values() for slot in reading.slots.values()]
            )
            judged = [_judge(reading, slots, frames, digests) for reading in readings.values()]
            worst = max(judged, key=lambda each: ("exact", "named", "wrong").index(each[0]))
            results[worst[0]] += 1
            print(f"{worst[0]:6} {name:50.50} {worst[1]}", flush=True)
    result = {
        "files": results.total(),
        "slots": len(slots),
        **{kind: results[kind] for kind in ("exact", "named", "wrong")},
    }
    print(json.dumps(result))
    if result["wrong"]:
        sys.exit(1)


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    return (
        f"{result['files']} files read both ways: {result['exact']} exact in all of {result['slots']} slots, "
        f"{result['named']} named by a sentence, {result['wrong']} wrong"
    )


def _files(folder: Path | None, resources: ExitStack) -> Iterator[tuple[str, Path]]:
    """Name and path of each."""
    named = folder or (Path(os.environ["VRT_CLIPS"]) if "VRT_CLIPS" in os.environ else None)
    if folder is None:
        made = Path(resources.enter_context(tempfile.TemporaryDirectory()))
        av.logging.set_level(av.logging.PANIC)
        yield from ((name, make(made)) for name, make in HOSTILE.items())
    for path in sorted(named.rglob("*")) if named else ():
        if path.is_file() and path.suffix != ".json":
            yield str(path.relative_to(named or path)), path


def _read(path: Path, mode: ReadMode, slots: range) -> Reading:
    try:
        with opened(path, first=[0], read_mode=mode, opening=NATIVE) as clip:
            pictures = {
                frame.ref.slot: _slot_picture(frame, clip.info) for frame in clip.stream(slots)
            }
            return Reading(clip.info.frames, pictures)
    except VideoError as error:
        return Reading(0, {}, str(error))


def _slot_picture(frame: Frame, info: ClipInfo) -> SlotPicture:
    shown = pixels(frame)
    stored = np.rot90(
        shown[:, ::-1] if "Mirrored, as the file asks." in info.notes else shown,
        info.rotation // 90,
    )
    return SlotPicture(frame.index, (stored.shape[1], stored.shape[0]), digest(stored), frame.note)


def _reference(path: Path, pictures: list[SlotPicture]) -> tuple[int, dict[int, str]]:
    """The number of frames of a full decode, and the digests of those frames."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.video.support.sequential_decode", str(path)],
        cwd=ROOT,
        input=json.dumps({picture.index: picture.size for picture in pictures}),
        capture_output=True,
        text=True,
        check=False,
    )
    frames, digests = json.loads(done.stdout or "[0, {}]")
    return frames, {int(index): value for index, value in digests.items()}


def _judge(reading: Reading, slots: range, frames: int, digests: dict[int, str]) -> tuple[str, str]:
    """exact, named or wrong, and why. A slot that was not given differs."""
    if reading.refusal:
        return "named", reading.refusal
    exact = {
        slot
        for slot, picture in reading.slots.items()
        if picture.note
        or (
            picture.index == PAIRED.index(slot, frames)
            and picture.digest == digests.get(picture.index)
        )
    }
    if reading.frames != frames or exact != set(slots):
        return (
            "wrong",
            f"{reading.frames} frames of {frames}; {len(set(slots) - exact)} slots of {len(slots)} differ",
        )
    notes = {picture.note for picture in reading.slots.values() if picture.note}
    return ("named", ", ".join(notes)) if notes else ("exact", f"{frames} frames")


if __name__ == "__main__":
    main()
