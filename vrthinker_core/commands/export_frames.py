"""Frames of one video as PNG files, before resizing for the judge."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.storage import atomic_path
from vrthinker_core.types import Frame, ProtocolName, Settings, Side
from vrthinker_core.types.geometry import Sizing
from vrthinker_core.video import Clip, FramePlan, open_clip

Advance = Callable[[int, int], None]


def export_frames(
    video: Path, protocol: ProtocolName, slots: Sequence[int], out: Path, advance: Advance
) -> dict[str, object]:
    """Write one PNG per slot into `out`; return JSON values.

    `advance` is called with the number of written files and their total.

    Raises `BadInput` if the protocol lacks a slot or the folder cannot be written, `VideoError` if
    the video is unreadable.
    """
    grid = make_protocol(Settings(), protocol).grid
    for slot in slots:
        if not 0 <= slot < grid.slots:
            raise BadInput(
                f"{protocol} has the slots 0 to {grid.slots - 1} of each video; {slot} is none of them."
            )
    native, total = Sizing("native"), len(set(slots))
    written: dict[int, dict[str, object]] = {}
    with open_clip(
        video, Side.FIRST, FramePlan(grid, native, native, frozenset([min(slots)]))
    ) as clip:
        for frame in _stream(clip, set(slots)):
            written[frame.ref.slot] = _write(frame, out)
            advance(len(written), total)
            del frame  # frees the pixels before the next frame arrives: 100 MB in 8K
        info, frames = clip.info, [written[slot] for slot in slots]
        return {
            "video": info.name,
            "protocol": protocol,
            "total": info.frames,
            "frames": frames,
            "notes": info.notes,
        }


def _stream(clip: Clip, slots: set[int]) -> Iterator[Frame]:
    """Yield the frames of the slots.

    A clip read by seeking gets one request per slot, so that the limits of a request apply to each.
    """
    while slots:
        asked = slots if clip.read_mode == "whole" else {min(slots)}
        slots = slots - asked
        yield from clip.stream(list(asked))


def _write(frame: Frame, out: Path) -> dict[str, object]:
    from PIL import Image

    path = out / f"slot_{frame.ref.slot:03d}.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            Image.frombytes("RGB", (frame.width, frame.height), frame.rgb).save(part, "PNG")
    except OSError as error:
        raise BadInput(f"Cannot write {path.name} into {out}: {error.strerror or error}.") from None
    notes = [frame.note] if frame.note else []
    return {
        "slot": frame.ref.slot,
        "index": frame.index,
        "timestamp": round(frame.seconds, 6),
        "notes": notes,
        "file": str(path),
    }
