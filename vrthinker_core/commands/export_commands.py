"""The command `export`: training rows from traces, in one file."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.protocols import make_protocol
from vrthinker_core.storage import atomic_path, os_errors
from vrthinker_core.text import encodable
from vrthinker_core.training.export import CSV_COLUMNS, FORMAT, ROWS, Row
from vrthinker_core.training.teaching import NotForTraining, RowFilter, RowKind, TraceFile
from vrthinker_core.training.trace_folder import read_traces
from vrthinker_core.types import Frame, ProtocolName, Settings, Side
from vrthinker_core.types.frames import Sizing
from vrthinker_core.types.progress import count
from vrthinker_core.types.wording import OUTSIDE_SCOPE
from vrthinker_core.video import ClipOpening, FramePlan


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
    plan = FramePlan(grid, native, native, frozenset([min(slots)]))
    with ClipOpening(video, Side.FIRST, plan).open() as clip:
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
    from PIL import Image

    path = out / f"slot_{frame.ref.slot:03d}.png"
    with os_errors(f"Cannot write {path.name} into {out}"):
        out.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            Image.frombytes("RGB", (frame.width, frame.height), frame.rgb).save(part, "PNG")
    return {
        "slot": frame.ref.slot,
        "index": frame.index,
        "timestamp": round(frame.seconds, 6),
        "notes": [frame.note] if frame.note else [],
        "file": str(path),
    }


# First bytes of the files that this command writes.
BEGINNINGS = (f'{{"format": "{FORMAT} '.encode(), ",".join(CSV_COLUMNS).encode())


@dataclass(slots=True)
class ExportReport:
    """Outcome of an export."""

    out: Path
    rows: int = 0
    used: int = 0  # number of traces that gave rows
    skipped: list[str] = field(default_factory=list)  # a line per other trace: file and reason

    @property
    def line(self) -> str:
        """Summary in one sentence."""
        skipped = f"; {count(len(self.skipped), 'trace')} skipped" if self.skipped else ""
        written = (
            f", written to {encodable(str(self.out))}" if self.rows else "; nothing was written"
        )
        return f"{count(self.rows, 'row')} from {count(self.used, 'trace')}{skipped}{written}."


def export_rows(
    places: Sequence[Path], kind: RowKind, out: Path, chosen: RowFilter
) -> ExportReport:
    """Write the rows of all traces, if there are any.

    A folder stands for every JSON file below it. Skips traces that cannot be read or must not be
    trained on, and names them in the report.

    Raises `BadInput` if a place is missing, or if `out` must not be replaced or cannot be written.
    """
    for place in places:
        with os_errors(f"Cannot read {place}", " Give a trace, or a folder of traces."):
            place.stat()
    check_export_path(out)
    report = ExportReport(out)
    rows = _all_rows(places, kind, chosen, report)
    first = next(rows, None)
    if first is None:
        return report
    with (
        os_errors(f"Cannot write {encodable(str(out))}"),
        atomic_path(out) as part,
        part.open("w", encoding="utf-8", newline="") as file,
    ):
        if kind == "videogen-reward":  # the only CSV format; all others are JSON lines
            table = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows(chain([first], rows))
        else:
            for row in chain([first], rows):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return report


def check_export_path(path: Path) -> None:
    """Raise `BadInput` unless the path is free or an earlier export. No link is followed."""
    with os_errors(f"Cannot write {encodable(str(path))}"):
        if not path.is_symlink() and not path.exists():
            return
        if not path.is_symlink() and path.is_file():
            with path.open("rb") as file:
                if file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS):
                    return
    raise BadInput(f"{encodable(str(path))} exists and is no earlier export: name a new file.")


def _all_rows(
    places: Sequence[Path], kind: RowKind, chosen: RowFilter, report: ExportReport
) -> Iterator[Row]:
    for path, file in read_traces(places, report.out):
        before = report.rows
        try:
            if isinstance(file, TraceError):
                raise file
            for row in ROWS[kind](file, chosen):
                report.rows += 1
                yield row
        except (TraceError, NotForTraining) as reason:
            told = f"{str(reason).rstrip('.')}."
            end = file.trace.finished if isinstance(file, TraceFile) else None
            if end is not None and end.outside_scope:
                told += f" {OUTSIDE_SCOPE}"
            report.skipped.append(encodable(f"{path}: {told}"))
        report.used += report.rows > before
