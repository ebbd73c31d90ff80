"""The frames of one video as picture files: exactly what a judge would be given, before resizing."""

from collections.abc import Sequence
from pathlib import Path

from vrthinker_core.dialects import make_dialect
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Frame, ProtocolName, Settings, Side
from vrthinker_core.types.geometry import Sizing
from vrthinker_core.video import FramePlan, open_clip


def export_frames(video: Path, protocol: ProtocolName, slots: Sequence[int], out: Path) -> dict[str, object]:
    """Write one PNG per slot into `out`; gives what is in them as JSON values.

    Raises BadInput for slots the protocol does not have or a folder that cannot be written, VideoError for an unreadable video.
    """
    grid = make_dialect(Settings(), protocol).grid
    for slot in slots:
        if not 0 <= slot < grid.slots:
            raise BadInput(f"{protocol} has the slots 0 to {grid.slots - 1} of each video; {slot} is none of them.")
    native = Sizing("native")
    with open_clip(video, Side.FIRST, FramePlan(grid, native, native, frozenset(slots))) as clip:
        written = [_write(frame, out) for frame in clip.frames(list(slots))]
        info = clip.info
        return {"video": info.name, "protocol": protocol, "total": info.frames, "frames": written, "notes": info.notes}


def _write(frame: Frame, out: Path) -> dict[str, object]:
    from PIL import Image

    path = out / f"slot_{frame.ref.slot:03d}.png"
    try:
        out.mkdir(parents=True, exist_ok=True)
        Image.frombytes("RGB", (frame.width, frame.height), frame.rgb).save(path)
    except OSError as error:
        raise BadInput(f"Cannot write {path.name} into {out}: {error.strerror or error}.") from None
    notes = [frame.note] if frame.note else []
    return {"slot": frame.ref.slot, "index": frame.index, "timestamp": round(frame.seconds, 6), "notes": notes, "file": str(path)}
