"""The examples of the page: stored traces with their clips, all recorded by one command and labelled with the judge that made them.

    python -m vrthinker_core examples [--judge nano]

Most are spoken by the judge that is given. What a small judge never does (be refused, recommend, speak the other protocol) is spoken by
a script over the same drawn clips, and the trace says so: its judge is named "scripted".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.backends import Opened, ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.events import Finished
from vrthinker_core.judge import judge
from vrthinker_core.training.films import write_film
from vrthinker_core.training.scenes import DrawnPair, draw_pair
from vrthinker_core.types import Settings, VideoPair

EXAMPLES = Path(__file__).resolve().parents[1] / "assets" / "examples"
SIZE = 336


@dataclass(frozen=True, slots=True)
class Example:
    """One comparison of two drawn clips."""

    name: str
    """Folder of the example; the page shows them in the order of the names."""
    seed: int
    """Which drawn pair."""
    settings: Settings = Settings()
    script: tuple[str, ...] = ()
    """Replies to speak in place of the judge that is given."""


WRITTEN = ("A script speaks here, not a model: it shows what the protocol allows.",)
"""Note of the examples that a script speaks."""


def record(opened: Opened, out: Path, examples: tuple[Example, ...], progress: Callable[[int, int], None]) -> Iterator[str]:
    """Write clips and traces of all examples into `out`; gives one line for each. Raises BadInput when `out` cannot be written."""
    for done, example in enumerate(examples):
        progress(done, len(examples))
        yield _record(opened, out / example.name, example)
    progress(len(examples), len(examples))


def _record(opened: Opened, folder: Path, example: Example) -> str:
    drawn = draw_pair(example.seed)
    pair = _films(drawn, folder)
    backend = ScriptedBackend(example.script) if example.script else opened.backend
    notes = WRITTEN if example.script else opened.notes
    end: Finished | None = None
    for event in judge(pair, backend, example.settings, trace=folder / "trace.json", notes=notes):
        end = event if isinstance(event, Finished) else end
    assert end is not None
    said = end.verdict.labels if end.verdict is not None else {}
    return f"{example.name}: {end.stop.value}, said {said}, true {drawn.verdict.labels}"


def _films(drawn: DrawnPair, folder: Path) -> VideoPair:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        first, second = folder / "first.mp4", folder / "second.mp4"
        for scene, path in zip(drawn.scenes, (first, second), strict=True):
            write_film(scene, path, SIZE)
    except OSError as error:
        raise BadInput(f"Cannot write the examples into {folder}: {error.strerror or error}.") from None
    return VideoPair(drawn.prompt, first, second)
