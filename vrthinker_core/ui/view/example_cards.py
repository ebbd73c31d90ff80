"""Examples: saved runs with their videos, which need no judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from vrthinker_core.errors import TraceError
from vrthinker_core.traces import load
from vrthinker_core.types import Side
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.thumbnail_files import ThumbnailFiles
from vrthinker_core.ui.view.tiles import group_tiles

VIDEO_NAMES = ("first.mp4", "second.mp4")


class CardJson(TypedDict):
    """An example as the page shows it."""

    name: str
    """Its folder, by which the page opens it."""
    title: str
    prompt: str
    outcome: str
    judge: str
    pictures: list[str]
    """The address of one picture of each video, "" where there is none."""


@dataclass(frozen=True, slots=True)
class SavedExample:
    """One saved run, and the files it compared."""

    name: str
    trace: Trace
    videos: tuple[Path, Path]


class Examples:
    """The examples in `folder`, in the order of their names. One whose trace cannot be read is left out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def all(self) -> tuple[SavedExample, ...]:
        """Every example."""
        examples = []
        for folder in sorted(path.parent for path in self.folder.glob("*/trace.json")):
            videos = (folder / VIDEO_NAMES[0], folder / VIDEO_NAMES[1])
            try:
                examples.append(SavedExample(folder.name, load(folder / "trace.json"), videos))
            except TraceError:
                continue
        return tuple(examples)

    def find(self, name: str) -> SavedExample | None:
        """The example of that name; None where there is none."""
        return next((example for example in self.all if example.name == name), None)

    def cards(self, thumbnails_of: Callable[[str], ThumbnailFiles]) -> list[CardJson]:
        """The examples for the page. `thumbnails_of(name)` holds the thumbnails of one example."""
        return [_card(example, thumbnails_of(example.name)) for example in self.all]


def _card(example: SavedExample, thumbnails: ThumbnailFiles) -> CardJson:
    trace = example.trace
    tiles = group_tiles(trace.turns[0].frames) if trace.turns else []
    halves = tiles[len(tiles) // 2].halves if tiles else {}
    verdict = trace.finished.verdict if trace.finished else None
    return {
        "name": example.name,
        "title": words.example_title(example.name),
        "prompt": trace.started.prompt,
        "outcome": words.verdict_headline(verdict) if verdict else words.NO_VERDICT,
        "judge": words.example_footer(trace.started.judge, len(trace.turns)),
        "pictures": [thumbnails(halves[side]).src if side in halves else "" for side in Side],
    }
