"""Saved runs as examples: clips that a scripted judge has compared."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.support.small_clips import write_clip
from tests.video.support.write_clips import write
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.runner import judge
from vrthinker_core.types import ProtocolName, Settings, VideoPair

PROMPT = "A white block glides to the right."
THINK = 3 * "The block glides in both, in video 2 slower; `${alert(1)}` <b>stays text</b>. "


def ask(*indices: int) -> str:
    """A reply that asks for frames."""
    wanted = f'{{"name": "select_frames", "arguments": {{"frame_indices": {list(indices)}}}}}'
    noted = f"<Snapshot>A block on a coloured field.</Snapshot><Think>{THINK}</Think>"
    return f"{noted}<tool_call>{wanted}</tool_call>"


LABELS = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
ANSWER = f"<Snapshot>It stays whole.</Snapshot><Think>{THINK}</Think>{LABELS}"
ENDLESS = "<Think>" + "on and on and on " * 20_000
SCRIPT = (ask(10, 30, 60, 90, 140), ANSWER)


def write_example(
    folder: Path,
    replies: Sequence[str] = SCRIPT,
    *,
    hue: int = 20,
    protocol: ProtocolName = "paired",
    settings: Settings = Settings(),
) -> Path:
    """Write an example: a folder with `trace.json`, `first.mp4`, `second.mp4`."""
    folder.mkdir(parents=True)
    first = write_clip(folder / "first.mp4", frames=48, hue=hue)
    second = write_clip(folder / "second.mp4", frames=30, hue=hue + 70)
    pair, backend = VideoPair(PROMPT, first, second), ScriptedBackend(replies, protocol=protocol)
    for _ in judge(pair, backend, settings, trace=folder / "trace.json"):
        pass
    return folder


def write_old(path: Path, frames: int = 24) -> Path:
    """Write an AVI in MPEG-4 part 2, which no browser plays."""
    pictures = [np.full((64, 96, 3), 10 * index, np.uint8) for index in range(frames)]
    return write(path, frames, codec="mpeg4", rate=24, options={}, pictures=pictures)
