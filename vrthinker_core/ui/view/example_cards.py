"""Examples: saved runs with their videos, which need no judge."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from vrthinker_core.errors import TraceError
from vrthinker_core.traces import load
from vrthinker_core.types import Side
from vrthinker_core.types.events import Trace
from vrthinker_core.types.progress import count
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.thumbnail_files import ThumbnailFiles
from vrthinker_core.ui.view.tiles import group_tiles


class CardJson(TypedDict):
    """An example as the page shows it."""

    name: str  # its folder, by which the page opens it
    row: str  # the heading of the row it stands in
    title: str
    prompt: str
    judge: str
    pictures: list[str]  # the address of one picture of each video, "" where there is none


@dataclass(frozen=True, slots=True)
class SavedExample:
    """One saved run, and the files it compared."""

    name: str
    trace: Trace
    videos: tuple[Path, Path]


class Examples:
    """The examples in `folder`, by the order of their rows and names. One whose trace cannot be read is left out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[SavedExample] = []
        for path in sorted(
            folder.glob("*/trace.json"),
            key=lambda path: (_row_number(path.parent.name), path.parent.name),
        ):
            videos = (path.with_name("first.mp4"), path.with_name("second.mp4"))
            with contextlib.suppress(TraceError):
                self.all.append(SavedExample(path.parent.name, load(path), videos))

    def find(self, name: str) -> SavedExample | None:
        """The example of that name; None where there is none."""
        return next((example for example in self.all if example.name == name), None)

    def cards(self, thumbnails_of: Callable[[str], ThumbnailFiles]) -> list[CardJson]:
        """The examples for the page. `thumbnails_of(name)` holds the thumbnails of one example."""
        return [_card(example, thumbnails_of(example.name)) for example in self.all]


def _row_number(name: str) -> int:
    """Where the row of the example of that name stands; those in no row come last."""
    rows = list(words.EXAMPLE_ROWS)
    kind = name.partition("-")[0]
    return rows.index(kind) if kind in rows else len(rows)


def _card(example: SavedExample, thumbnails: ThumbnailFiles) -> CardJson:
    trace = example.trace
    tiles = group_tiles(trace.turns[0].frames) if trace.turns else []
    halves = tiles[len(tiles) // 2].halves if tiles else {}
    kind, _, rest = example.name.partition("-")
    title = (
        (rest if kind in words.EXAMPLE_ROWS else example.name)
        .lstrip("0123456789-")
        .replace("-", " ")
    )
    return {
        "name": example.name,
        "row": words.EXAMPLE_ROWS.get(kind, words.EXAMPLES),
        "title": title[:1].upper() + title[1:],
        "prompt": trace.started.prompt,
        "judge": f"{words.judge_line(trace.started.judge)} · {count(len(trace.turns), 'turn')}",
        "pictures": [thumbnails(halves[side]).src if side in halves else "" for side in Side],
    }
