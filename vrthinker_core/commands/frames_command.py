"""The command `frames`: frames of a judge's slots as PNG files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol
from vrthinker_core.storage import atomic_path, os_errors
from vrthinker_core.types import Frame, FrameRef, ProtocolName, Settings, Side
from vrthinker_core.types.frames import Sizing
from vrthinker_core.video import Clip, FramePlan


def export_frames(
    video: Path,
    protocol: ProtocolName,
    slots: Sequence[int],
    out: Path,
    advance: Callable[[int, int], None],
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
    native, left, total = Sizing("native"), set(slots), len(set(slots))
    written: dict[int, dict[str, object]] = {}
    plan = FramePlan(grid, native, native, (FrameRef(min(slots), Side.FIRST),))
    with Clip(video, Side.FIRST, plan).open() as clip:
        while left:
            # A clip read by seeking gets one request per slot: a request's limits apply to each
            asked = left if clip.read_mode == "whole" else {min(left)}
            left = left - asked
            for frame in clip.stream(list(asked)):
                written[frame.ref.slot] = _write_frame(frame, out)
                advance(len(written), total)
                del frame  # frees the pixels before the next frame arrives: 100 MB in 8K
        return {
            "video": clip.info.name,
            "protocol": protocol,
            "total": clip.info.frames,
            "frames": [written[slot] for slot in slots],
            "notes": clip.info.notes,
        }


def _write_frame(frame: Frame, out: Path) -> dict[str, object]:
    path = out / f"slot_{frame.ref.slot:03d}.png"
    with os_errors(f"Cannot write {path.name} into {out}"):
        out.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            frame.image.save(part, "PNG")
    return {
        "slot": frame.ref.slot,
        "index": frame.index,
        "timestamp": round(frame.seconds, 6),
        "notes": [frame.note] if frame.note else [],
        "file": str(path),
    }
